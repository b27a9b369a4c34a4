"""What a tokenizer loses of a text: by the form of its file, and in texts decoded again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as ReferenceTokenizer

from pipeline_lib.tokenization.byte_symbols import BYTE_SYMBOLS, unspelled

Fields = Mapping[str, Any]  # the form of the file is that of the tokenizers library


@dataclass(frozen=True)
class Losses:
    """What a tokenizer may lose, by the form of its file.

    ``unknown_id``: of the token that stands for unknown text, None if there is none. ``unspelled``:
    bytes that its vocabulary of bytes has no token for. ``in_silence``: text may vanish without
    even an unknown token. ``comparable``: whether decoded text can be compared with the text.
    """

    unknown_id: int | None = None
    unspelled: tuple[int, ...] = ()
    in_silence: bool = False
    comparable: bool = True


def losses(fields: Fields, reference: ReferenceTokenizer) -> Losses:
    """What the tokenizer of a parsed file may lose."""
    is_byte_level = any(_has_byte_level(fields.get(n)) for n in ("pre_tokenizer", "normalizer"))
    return Losses(
        _unknown_id(fields["model"], reference),
        tuple(_unspelled(fields["model"], is_byte_level)),
        _in_silence(fields["model"], is_byte_level),
        fields.get("decoder") is not None or not is_byte_level,
    )


def _unspelled(model: Fields, is_byte_level: bool) -> Sequence[int]:
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or model.get("type") != "BPE":
        return ()
    if is_byte_level:
        return unspelled(BYTE_SYMBOLS, vocabulary)
    if not model.get("byte_fallback") or model.get("unk_token") is not None:
        return ()  # a character without bytes goes to the unknown token as a whole
    return unspelled([f"<0x{byte:02X}>" for byte in range(256)], vocabulary)


def _in_silence(model: Fields, is_byte_level: bool) -> bool:
    if model.get("type") != "BPE" or model.get("unk_token") is not None:
        return False
    by_bytes = is_byte_level or bool(model.get("byte_fallback"))
    return not by_bytes or bool(_unspelled(model, is_byte_level))


def _unknown_id(model: Fields, reference: ReferenceTokenizer) -> int | None:
    if model.get("type") == "Unigram":
        found = model.get("unk_id")
    else:
        name = model.get("unk_token")
        found = None if name is None else reference.token_to_id(name)
    return None if found is None else int(found)


def is_lost(found: Losses, reference: ReferenceTokenizer, text: bytes, ids: Sequence[int]) -> bool:
    """Whether some of a text is not there any more when its ids are decoded.

    White space does not count, because decoders set spaces of their own; nor does what the
    tokenizer's own normalizer changes.
    """
    wanted = text.decode()
    if reference.normalizer is not None:
        wanted = reference.normalizer.normalize_str(wanted)
    if any(byte in wanted.encode() for byte in found.unspelled):
        return True
    if not found.comparable:
        return False
    return _solid(reference.decode(list(ids), skip_special_tokens=False)) != _solid(wanted)


def _solid(text: str) -> str:
    return "".join(text.replace("\u2581", " ").split())


def _has_byte_level(part: Any) -> bool:
    if isinstance(part, list):
        return any(map(_has_byte_level, part))
    if not isinstance(part, dict):
        return False
    inner = (part.get("pretokenizers"), part.get("normalizers"))
    return part.get("type") == "ByteLevel" or any(map(_has_byte_level, inner))
