"""Helpers of the chat tests: small tokenizers, rows in memory, and conversations on disk."""

import functools
import itertools
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as ReferenceTokenizer
from tokenizers import decoders, models, pre_tokenizers

from pipeline_lib import digest
from pipeline_lib.chat.conversation import Turns, tool_fields
from pipeline_lib.chat.json_values import as_json
from pipeline_lib.chat.normalize import Normalized, normalize
from pipeline_lib.chat.row_results import Normalizer
from pipeline_lib.chat.rows import SourceRows
from pipeline_lib.chat.store_format import RowTurns
from pipeline_lib.records import ROLES, ToolCall, Turn, learn_bits
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.tokenization.bpe_training import train_bpe
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer

TEXTS = ["the quick brown fox", "Grüße aus Köln", "1 + 1 = 2, yes", "user system assistant", "答え"]


def turns(*contents: str, first: str = "user") -> list[Turn]:
    """Alternating turns; ``first`` is the role of the first one."""
    roles = ["user", "assistant"] if first == "user" else ["assistant", "user"]
    return [Turn(role=roles[i % 2], content=content) for i, content in enumerate(contents)]


def numbered_chat(number: int, rounds: int = 1) -> list[Turn]:
    """A conversation that is different for each number, of ``2 * rounds`` turns."""
    lines = [f"{'question' if i % 2 == 0 else 'answer no'} {number} {i}" for i in range(2 * rounds)]
    return turns(*lines)


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def tool_chat(number: int, answer: str = "It is there.") -> Turns:
    """A conversation that is different for each number, with a call, its result and an answer."""
    arguments = {"z": number, "a": "TOOLTEXT"}
    call: ToolCall = {"type": "function", "function": {"name": "look", "arguments": arguments}}
    asking, calling = turns(f"find number {number}", "")
    calling["tool_calls"] = [call]
    result = Turn(role="tool", content=f"TOOLTEXT {number}", name="look")
    return Turns([asking, calling, result, *turns(answer, first="assistant")], tools=[TOOL])


def in_row(conversation: Sequence[Turn]) -> RowTurns:
    """A conversation as its stored columns hold it."""
    roles = np.array([ROLES.index(turn["role"]) for turn in conversation], np.int8)
    learn = np.array([learn_bits(turn) for turn in conversation], np.int8)
    contents = [turn["content"].encode() for turn in conversation]
    tools = getattr(conversation, "tools", None)
    return RowTurns(
        contents, roles, learn, [*map(tool_fields, conversation)], as_json(tools) if tools else b""
    )


class ListRows:
    """Rows in memory, in the shape of a ``datasets.Dataset``."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: list[int]) -> dict[str, list[Any]]:
        names = list(self.rows[0]) if self.rows else []
        return {name: [self.rows[place][name] for place in places] for name in names}


def source_rows(rows: Sequence[Mapping[str, Any]], *, tree: bool = False) -> SourceRows:
    """A source with these rows."""
    return SourceRows(ListRows(rows), digest.sha256_bytes(repr(rows).encode()), tree)


def as_it_is(row: dict[str, Any]) -> Any:
    """A normalizer for rows that hold the result."""
    return row["result"]


CHATS = source_rows([{"result": numbered_chat(i)} for i in range(40)])
MIXED_CHATS = source_rows(
    [{"result": tool_chat(i) if i % 7 == 6 else numbered_chat(i)} for i in range(40)]
)
"""Some parts of their store hold tools, others do not."""


def normalized(
    root: Path, rows: SourceRows, normalizer: Normalizer = as_it_is, **options: Any
) -> Normalized:
    """The rows, normalised as a source of the name ``one``."""
    options = {"seed": 7, "val_fraction": 0.25} | options
    return normalize({"one": rows}, {"one": normalizer}, CacheOptions(root), **options)


def stored_conversations(
    root: Path, sources: Mapping[str, Sequence[Any]], *, val_fraction: float = 1e-9
) -> Normalized:
    """Results, stored as if a normalizer had returned them; nearly all of them are in train."""
    rows = {
        name: source_rows([{"result": r} for r in results]) for name, results in sources.items()
    }
    cache = CacheOptions(root)
    return normalize(
        *(rows, dict.fromkeys(rows, as_it_is), cache),
        seed=7,
        val_fraction=val_fraction,
        allow_missing=list(sources),
    )


@functools.cache
def tokenizer(vocab_size: int = 300) -> Tokenizer:
    """A byte-level BPE with the control tokens."""
    return tokenizer_from_json(train_bpe(TEXTS * 20, vocab_size=vocab_size).json)


def control_id(token: str) -> int:
    assert token in CONTROL_TOKENS
    return tokenizer().token_id(token)


def contents(folder: Path) -> dict[str, bytes]:
    """Relative path -> bytes of every file below a folder, without lock files."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


WIDE = {
    "<|endoftext|>": 199_999,
    "<|endofprompt|>": 200_018,
    "<|im_start|>": 200_264,
    "<|im_end|>": 200_265,
    "<|im_sep|>": 200_266,
    "<|pad|>": 200_267,
}
"""Ids of control tokens in a vocabulary as large as o200k, with unused ids between them."""


@functools.cache
def wide_tokenizer() -> Tokenizer:
    """A byte-level BPE with ids up to 199,998, most of them unused, and the tokens of ``WIDE``.

    It merges pairs and triples of small letters, to ids above 65,536.
    """
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    small = "abcdefghijklmnopqrstuvwxyz"
    pairs = [*itertools.product(small, small)]
    merges = [*pairs, *((a + b, c) for a, b in pairs for c in small)]
    places = range(199_998 - 7 * len(merges), 199_998, 7)
    vocab = {name: i for i, name in enumerate(symbols)} | WIDE
    vocab |= {a + b: place for (a, b), place in zip(merges, places, strict=True)}
    model = models.BPE(vocab=vocab, merges=merges)
    reference = ReferenceTokenizer(model)
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.decoder = decoders.ByteLevel()
    reference.add_special_tokens([*WIDE])
    return tokenizer_from_json(reference.to_str().encode())


def with_ordinary_marks(known: Tokenizer) -> Tokenizer:
    """The same tokenizer; all control tokens but the end token are ordinary added tokens."""
    fields = json.loads(known.json)
    for token in fields["added_tokens"]:
        token["special"] = token["content"] == known.eos_token
    return tokenizer_from_json(json.dumps(fields).encode())


def tokenizer_from_json(data: bytes, **options: Any) -> Tokenizer:
    """A tokenizer from the content of its ``tokenizer.json``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        path.write_bytes(data)
        return load_tokenizer(path, **options)
