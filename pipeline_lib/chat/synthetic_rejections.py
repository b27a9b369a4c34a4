"""A pair for every conversation: a real pair stays, others get a made rejected answer.

The made answer has the units of the last assistant turn in another order: words, and characters in
scripts that write no spaces between words. Everything else stays where it is: white space, lines,
punctuation, list numbers, tags, fences. So the layout does not tell which answer was made, and what
was a good answer does not stay one. The content decides the order, so equal conversations get equal
pairs. Pure.
"""

import hashlib
import re
from collections import Counter
from itertools import chain

import numpy as np

from pipeline_lib import selection
from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.chat.store_format import RowTurns, in_columns, row_of

SYNTHETIC_VERSION = 2
"""Increased when a synthetic answer changes."""
MOVED = 0.5
"""At least this share of the places holds another unit than before; else no answer is made."""

_TRIES = 8
_ASSISTANT = np.array([2], np.int8)
_UNSPACED = (
    "\u0e01-\u0e4e\u0e81-\u0ecd\u0f40-\u0fbc\u1000-\u109f\u1780-\u17d3\u1950-\u19df\u1a20-\u1aaf"
    "\u3005-\u3007\u3041-\u30ff\u3105-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf"
    "\ua980-\ua9c0\ua9e0-\ua9fe\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9d\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, Tai, kana, bopomofo, Han, Yi, Javanese."""
_MARKS = (
    "\u0300-\u036f\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ecd\u0f71-\u0fbc"
    "\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u3099\u309a\u30fc\ufe00-\ufe0f\U000e0100-\U000e01ef"
)
"""What belongs to the character before it."""
_BEFORE = "\u0e40-\u0e44\u0ec0-\u0ec4"
"""Vowels that are written before their consonant."""
_PUNCTUATION = (
    r"!-/:-@\[-^`{-~\u00a1\u00a7\u00ab\u00b6\u00b7\u00bb\u00bf\u060c\u061b\u061f\u0964\u0965"
    r"\u0f0b-\u0f14\u104a\u104b\u2010-\u205e\u2190-\u23ff\u2500-\u25ff\u3000-\u3004\u3008-\u3030"
    r"\u303d\u30a0\u30fb\ufe10-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_LETTER = rf"[^\s{_PUNCTUATION}{_UNSPACED}]"
_PIECE = re.compile(
    r"^[ \t]*\d{1,4}[.)](?=\s)"  # the number of a list
    r"|```[^\n]*"  # a fence and its language
    r"|</?[A-Za-z][^<>\n]{0,80}>"  # a tag, such as <think>
    r"|\\[A-Za-z]+"  # a command of a formula
    rf"|(?P<unit>[{_BEFORE}]?[{_UNSPACED}](?:\u17d2.|\u1039.|[{_MARKS}])*"
    rf"|{_LETTER}+(?:['’.\-_]{_LETTER}+)*)",
    re.MULTILINE,
)


def shuffled_units(content: bytes) -> bytes | None:
    """A text with its units in another order, each in the place of another one.

    None if no order of its units is really another one: fewer than ``MOVED`` of the places change.
    """
    text = content.decode()
    spans = [found.span() for found in _PIECE.finditer(text) if found["unit"]]
    units = [text[start:stop] for start, stop in spans]
    most = max(Counter(units).values(), default=0)
    if 2 * (len(units) - most) < MOVED * len(units) or not units:
        return None
    seed = int.from_bytes(hashlib.sha256(content).digest()[:4], "big")
    orders = (
        selection.permutation(len(units), seed, "rejected", str(attempt)).tolist()
        for attempt in range(_TRIES)
    )
    tries = ([units[place] for place in order] for order in orders)
    for shuffled in chain(tries, map(_rotated, [units], [most])):
        moved = sum(map(str.__ne__, units, shuffled))
        if moved >= MOVED * len(units) and (made := _with_units(text, spans, shuffled)) != text:
            return made.encode()
    return None


def _rotated(units: list[str], most: int) -> list[str]:
    """The order that moves as many units as any: equal ones side by side, shifted past them."""
    places = sorted(range(len(units)), key=lambda place: units[place])
    out = list(units)
    for place, source in zip(places, [*places[most:], *places[:most]], strict=True):
        out[place] = units[source]
    return out


def _with_units(text: str, spans: list[tuple[int, int]], units: list[str]) -> str:
    """The text with other units in the places of its units."""
    out, end = list[str](), 0
    for (start, stop), unit in zip(spans, units, strict=True):
        out += [text[end:start], unit]
        end = stop
    return "".join([*out, text[end:]])


def with_rejected(batch: ConversationBatch) -> ConversationBatch:
    """The same conversations, with a rejected continuation wherever possible.

    The prompt of a synthetic pair is everything before the last turn. ``prompt`` stays 0 for a
    conversation of a single turn. There are no rejected turns if the units of the answer have no
    other order, or if it calls tools: another call would not be worse in a way that one can tell.
    """
    prompt = batch.prompt.copy()
    rejected = [_rejected(batch, row) for row in range(len(prompt))]
    offsets = batch.turns.offsets
    synthetic = prompt == 0
    prompt[synthetic] = (np.diff(offsets) - 1)[synthetic]
    return batch._replace(prompt=prompt, rejected=in_columns(rejected))


def _rejected(batch: ConversationBatch, row: int) -> RowTurns:
    if batch.prompt[row]:
        return row_of(batch.rejected, row)
    last = int(batch.turns.offsets[row + 1]) - 1
    calls = bool(batch.turns.fields[last])
    content = None if calls else shuffled_units(batch.turns.contents[last])
    if content is None:
        return RowTurns([], _ASSISTANT[:0], _ASSISTANT[:0], [])
    return RowTurns([content], _ASSISTANT, batch.turns.learn[last : last + 1], [b""])
