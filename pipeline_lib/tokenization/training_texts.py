"""The training texts of a tokenizer in one buffer, with long runs cut.

A run is a sequence of characters without a space, or of spaces only. Every merge takes time in
proportion to the length of a run. So runs over ``LONGEST`` characters are cut, for training only,
and the cuts are counted.
"""

import io
import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

LONGEST = 256
BOUNDARY = b"\xff"
"""Ends a text in the buffer; UTF-8 never has this byte."""
_RUN = re.compile(rf"\S{{{LONGEST}}}(?=\S)|\s{{{LONGEST}}}(?=\s)")
_GAP = re.compile(rf"\s{{{LONGEST + 1}}}")
_SPACE, _NO_ASCII = 0x20, 0x80


class TrainingTexts:
    """All training texts in one buffer (``data``): UTF-8, each ended by ``BOUNDARY``.

    ``texts``: the number of texts. ``cuts``: the number of cuts in long runs.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._buffer = io.BytesIO()
        self.texts = self.cuts = 0
        for text in texts:
            whole = text.encode()
            pieces = [piece.encode() for piece in cut_runs(text)] if _may_run(whole) else [whole]
            self.texts += 1
            self.cuts += len(pieces) - 1
            for piece in pieces:
                self._buffer.write(piece)
                self._buffer.write(BOUNDARY)
        self.data = self._buffer.getvalue()

    def start(self, size: int) -> list[bytes]:
        """The first pieces, about ``size`` bytes in all."""
        return self.data[:size].split(BOUNDARY)[:-1]

    def blocks(self, size: int) -> Iterator[list[bytes]]:
        """All pieces, in blocks of about ``size`` bytes."""
        start = 0
        while start < len(self.data):
            stop = self.data.find(BOUNDARY, min(start + size, len(self.data) - 1)) + 1
            yield self.data[start : stop - 1].split(BOUNDARY)
            start = stop


def cut_runs(text: str) -> list[str]:
    """The text in pieces that have no run over ``LONGEST`` characters; usually one piece."""
    ends = [match.end() for match in _RUN.finditer(text)] if _has_run(text) else []
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def _may_run(text: bytes) -> bool:
    """Whether the text may have a run to cut; False for nearly all texts, from the bytes alone.

    A long run without spaces is a gap between two bytes that may be spaces. A long run of spaces is
    a gap between two bytes that are not spaces. A byte that is not ASCII may be part of either.
    """
    if len(text) <= LONGEST:
        return False
    data = np.frombuffer(text, np.uint8)
    return _has_gap(data <= _SPACE) or _has_gap((data > _SPACE) & (data < _NO_ASCII))


def _has_gap(marked: NDArray[np.bool_]) -> bool:
    places = np.flatnonzero(marked)
    if len(places) == 0:
        return True
    ends = max(int(places[0]), len(marked) - 1 - int(places[-1]))
    return max(ends, int(np.diff(places).max(initial=1)) - 1) > LONGEST


def _has_run(text: str) -> bool:
    if len(text) <= LONGEST:
        return False
    return max(map(len, text.split()), default=0) > LONGEST or bool(_GAP.search(text))
