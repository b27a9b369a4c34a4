"""The fields of a message beside its role and its text: what they ask for, and which are not read.

Nothing is dropped in silence. A field that says "do not learn this" is obeyed. A field whose
meaning would be lost (a tool call that nobody read, a picture, a flag that is neither yes nor no)
refuses the message. Any other field that holds something is named in a note. Pure.
"""

import math
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_FLAG_WORDS = {"learn", "learned", "learnable", "train", "trained", "training", "trainable"}
_FLAG_WORDS |= {"loss", "losses", "weight", "weights"}
_NOT_WORDS = {"no", "not", "dont", "skip", "ignore", "ignored", "exclude", "excluded", "without"}
_MASK_WORDS = {"mask", "masked"}
_FLAGS = {"learn", "train", "training", "trainable", "loss", "weight", "masked"}
_FLAGS |= {"loss_mask", "loss_weight", "loss_scale", "train_on_turn", "is_trainable"}
_FLAGS |= {"train_detail", "training_detail", "train_on", "weights", "losses"}
_TOOL_KEYS = {"tool_calls", "tool_call", "function_call", "function_calls", "tool_call_id"}
_TOOL_KEYS |= {"tool_use", "tool_result", "tool_results", "tool_outputs", "tool_responses"}
_MEDIA_KEYS = {"image", "images", "image_url", "image_urls", "audio", "audios", "input_audio"}
_MEDIA_KEYS |= {"video", "videos", "video_url", "file", "files"}
_TOOL_ROLES = {"tool", "tools", "function", "ipython", "observation", "function_call", "tool_call"}
_TOOL_ROLES |= {"function_response", "tool_response", "tool_result", "environment"}
_YES, _NO = {"true", "yes", "on", "y", "t"}, {"false", "no", "off", "n", "f"}
_NOTHING = ("", "[]", "{}", "null", "none", "nan")
_NAME_LENGTH = 40
OWN = "learn"
"""The field of stored turns, which ``read_turns`` sets for any of the flags."""


class TurnFields(NamedTuple):
    """What the other fields of a message say.

    ``learn``: whether loss falls on the turn. ``refusal``: why the message can not be used, or an
    empty text. ``notes``: a text for each field that is not read or not obeyed to the letter.
    """

    learn: bool = True
    refusal: str = ""
    notes: tuple[str, ...] = ()


_NOTHING_SAID = TurnFields()


def read_fields(
    message: Mapping[str, Any], used: Collection[str], *, assistant: bool
) -> TurnFields:
    """What the fields of a message say that are not in ``used``.

    A flag such as ``weight``, ``train`` or ``loss`` clears ``learn`` of an assistant's turn with 0,
    false, or a word for it. A weight between is learned in full, with a note. On other turns a flag
    has no effect, because they are never learned.
    """
    others = [key for key in message if key not in used and not blank(message[key])]
    if not others:
        return _NOTHING_SAID
    learn, refusal, notes = True, "", list[str]()
    for key in others:
        lowered = plain_name(key)
        if lowered in _TOOL_KEYS:
            refusal = refusal or other_form(_short(key))
        elif lowered in _MEDIA_KEYS:
            refusal = refusal or f"only text is read ({_short(key)} found)"
        elif (flag := flag_of(key, message[key])) is None:
            notes.append(f"turn key {_short(key)!r} is not read")
        elif not assistant:
            notes += [f"turn flag {_short(key)!r} has no effect here"] * flag.learn
        else:
            learn &= flag.learn
            refusal = refusal or flag.refusal
            notes += flag.notes
    return TurnFields(learn, refusal, tuple(notes))


def row_fields(row: Mapping[str, Any]) -> TurnFields:
    """What flags beside the turns, in the row itself, say; they hold for all of its turns.

    Only the usual names count. A value that is neither yes nor no may be something else, such as a
    measured loss, so it leaves a note and is no refusal.
    """
    learn, notes = True, list[str]()
    for key in row.keys() & _FLAGS:
        flag = None if blank(row[key]) else flag_of(key, row[key])
        if flag is None:
            continue
        learn &= flag.learn
        said = [f"row flag {key!r}: no turn is learned"] * (not flag.learn)
        notes += [f"row key {key!r} is neither yes nor no: not read"] * bool(flag.refusal)
        notes += said or [note.replace("turn", "row", 1) for note in flag.notes]
    return TurnFields(learn, "", tuple(sorted(notes)))


def flag_of(key: str, value: Any) -> TurnFields | None:
    """What a field says about learning; None if neither its name nor its value speaks of it."""
    words = [word.lower() for word in _WORD.findall(str(key))]
    flag = next((place for place, word in enumerate(words) if word in _FLAG_WORDS), None)
    masks = [place for place, word in enumerate(words) if word in _MASK_WORDS]
    if flag is None and words != ["masked"]:
        return None
    inverse = bool(_NOT_WORDS & {*words}) or (masks != [] and (flag is None or masks[0] < flag))
    said, name = _said(value), _short(key)
    if isinstance(said, bool):
        learn = said != inverse
        told = not learn and key != OWN
        return TurnFields(learn, "", (f"turn flag {name!r}: not learned",) * told)
    if said is not None and said > 0 and not inverse:
        return TurnFields(notes=(f"turn flag {name!r} is neither 0 nor 1: learned in full",))
    if plain_name(key) in _FLAGS or inverse or said is not None:
        return TurnFields(refusal=f"turn flag {name!r} is neither yes nor no")
    return None


def _said(value: Any) -> bool | float | None:
    """Yes or no, another number, or None for what is neither."""
    value = value.item() if getattr(value, "shape", None) == () else value  # a number of numpy
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _YES or word in _NO:
            return word in _YES
        try:
            value = float(word)
        except ValueError:
            return None
    if not isinstance(value, Real | Decimal):
        return None
    number = float(value)
    return bool(number) if number in (0, 1) else number


def blank(value: Any) -> bool:
    """Whether a field holds nothing: null, NaN, an empty text or list, or only such things.

    Columnar files give every message all keys of all messages, filled with nulls.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    if isinstance(value, str | bytes):
        return str(value).strip().lower() in _NOTHING or not value.strip()
    if isinstance(value, Mapping):
        return all(map(blank, value.values()))
    if getattr(value, "shape", None) == ():
        return bool(value != value)
    return all(map(blank, value)) if hasattr(value, "__iter__") else False


def tool_role(name: object) -> bool:
    """Whether a role is that of a tool, or of a call to one."""
    return plain_name(name) in _TOOL_ROLES


def other_form(found: str) -> str:
    """The reason for a tool call, or a result of one, in a form or a place where none is read."""
    return f"tool calls are not read in this form ({found})"


def plain_name(name: object) -> str:
    """A name in lower case, with underscores."""
    return str(name).strip().lower().replace("-", "_").replace(" ", "_")


def _short(name: object) -> str:
    return str(name)[:_NAME_LENGTH]
