"""The errors of this package, as one tree of exceptions.

    PipelineError
    ├── SourceError            a corpus or data set is missing, empty or not readable
    │   ├── ColumnError        a column is missing or has another type
    │   ├── MissingSources     sources that a run asks for are not there
    │   └── SourceChanged      the source differs from the one the run started with
    ├── HubError               a request to the Hub failed
    ├── TokenizerError         a tokenizer can not be used
    │   └── TextRefused        the library of a tokenizer raises on a text
    ├── EncoderMismatch        the fast encoder and the reference disagree
    ├── OutputExists           the output path already exists
    ├── NothingToResume        there is no unfinished run to resume
    ├── ResumeRefused          an unfinished run exists, but it is another run
    ├── DamagedFile            a file differs from its record
    ├── CacheError             a cache can not be built or used
    ├── Locked                 another process works in the folder
    ├── OrderError             a position of training can not be saved or loaded
    │   ├── OrderChanged       it belongs to another dataset, seed or shuffle
    │   ├── ReadAhead          what reads the order has not handed out all that it read
    │   └── WorldUnknown       it is not said which share of the samples this process takes
    └── Interrupted            a signal stopped the run after a commit

A wrong argument raises ``ValueError`` instead. Every error text has three parts: found, expected,
to do.
"""


class PipelineError(Exception):
    """A problem outside the code (files, network, data) stops the work; commits are kept."""


class SourceError(PipelineError):
    """A corpus or data set is missing, empty or not readable."""


class ColumnError(SourceError):
    """A column is missing or has another type than the reader needs."""


class MissingSources(SourceError):
    """Sources that a run asks for are not there, and it is not said that it may do without."""


class SourceChanged(SourceError):
    """The source differs from the one the run started with."""


class HubError(PipelineError):
    """A request to the Hub failed."""


class TokenizerError(PipelineError):
    """A tokenizer is missing, has no ``tokenizer.json``, or lacks a needed token."""


class TextRefused(TokenizerError):
    """The library of a tokenizer can not encode a text."""


class EncoderMismatch(PipelineError):
    """The fast encoder and the reference encoder give different ids for a text."""


class OutputExists(PipelineError):
    """The output path already exists."""


class NothingToResume(PipelineError):
    """There is no unfinished run to resume."""


class ResumeRefused(PipelineError):
    """An unfinished run exists, but its recipe or versions differ."""


class DamagedFile(PipelineError):
    """A file differs from its record, or its content is not valid."""


class CacheError(PipelineError):
    """A cache can not be built or used."""


class Locked(PipelineError):
    """Another process works in the folder."""


class OrderError(PipelineError):
    """A position of training can not be saved, loaded or continued."""


class OrderChanged(OrderError):
    """A saved position belongs to another dataset, seed or shuffle."""


class ReadAhead(OrderError):
    """What reads an order has read more than it handed out, so the position is not known."""


class WorldUnknown(OrderError):
    """It is not said which share of the samples this process takes."""


class Interrupted(PipelineError):
    """A signal stopped the run; ``signum`` is its number. The last commit is kept."""

    def __init__(self, message: str, signum: int = 2) -> None:  # pickle passes only the message
        super().__init__(message)
        self.signum = signum
