"""What can be wrong with the world, as a tree of exceptions.

    PipelineError
    ├── SourceError            a corpus or data set is absent, foreign or unreadable
    │   ├── ColumnError        a column is missing or has another type
    │   └── SourceChanged      it is not the source the run began with
    ├── HubError               the Hub did not give what was asked for
    ├── TokenizerError         a tokenizer can not be used
    ├── EncoderMismatch        the fast encoder and the reference disagree
    ├── OutputExists           the place to write to is taken
    ├── NothingToResume        there is no run to go on with
    ├── ResumeRefused          a run exists but it is another one
    ├── DamagedFile            a file is not what its record says
    ├── CacheError             a cache can not be built or used
    ├── Locked                 another process works in the folder
    └── Interrupted            stopped by a signal after a commit

A wrong argument is a ``ValueError`` instead. Every text says what was found, what was
expected and what to do.
"""


class PipelineError(Exception):
    """A state of the world that stops the work; nothing committed is lost."""


class SourceError(PipelineError):
    """A corpus or data set is absent, foreign or unreadable."""


class ColumnError(SourceError):
    """A column is missing or holds another type than the reader needs."""


class SourceChanged(SourceError):
    """The source is not the one the run began with."""


class HubError(PipelineError):
    """The Hub did not give what was asked for."""


class TokenizerError(PipelineError):
    """A tokenizer is missing, slow, or lacks what the pipeline needs."""


class EncoderMismatch(PipelineError):
    """The fast encoder gave other ids than the reference for a document."""


class OutputExists(PipelineError):
    """The place to write to is taken."""


class NothingToResume(PipelineError):
    """There is no unfinished run to go on with."""


class ResumeRefused(PipelineError):
    """An unfinished run exists, but its recipe or versions differ."""


class DamagedFile(PipelineError):
    """A file is not what its record says."""


class CacheError(PipelineError):
    """A cache can not be built or used."""


class Locked(PipelineError):
    """Another process works in the folder."""


class Interrupted(PipelineError):
    """A signal stopped the run; ``signum`` says which. The last commit holds."""

    def __init__(self, message: str, signum: int = 2) -> None:  # the default lets it be copied
        super().__init__(message)
        self.signum = signum
