"""Sizes of the offline sample, known before it is made because they are the same every time."""

from pipeline_lib.downloads.sizes import Size
from pipeline_lib.sampledata.corpus_files import CORPUS, CORPUS_FILES, CORPUS_ROWS
from pipeline_lib.sampledata.make import SAMPLED

SAMPLE_NOTE = "made offline"
CORPUS_TEXT_KILOBYTES = 2_820
"""UTF-8 kilobytes of the corpus."""
_CORPUS_KILOBYTES = 810
_MESSAGES = {"oasst2": 3_039}
"""Rows of the data sets whose rows are messages of a tree."""


def size_of_sample(name: str) -> Size:
    """The size of a data set of the sample, or of the corpus, that is not made yet.

    Unknown if there is none of that name.
    """
    if name == CORPUS:
        return Size(name, CORPUS_FILES * CORPUS_ROWS, 0, _CORPUS_KILOBYTES * 1000, SAMPLE_NOTE)
    if name not in SAMPLED:
        return Size(name, None, 0, None, SAMPLE_NOTE)
    rows = _MESSAGES.get(name, SAMPLED[name].rows)
    return Size(name, rows, 0, SAMPLED[name].kilobytes * 1000, SAMPLE_NOTE)
