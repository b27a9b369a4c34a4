"""Compare a published folder with its source, from which its first documents are made again.

Order, split and text follow from the recipe. So reading the source from its start gives the
documents that the shards must begin with, and the reference encoder gives their exact ids. This
works with tokenizers that lose text, too. With a tokenizer that loses nothing, the ids must also
decode to the text.
"""

from collections.abc import Generator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import selection, shuffling
from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.batches import is_blank
from pipeline_lib.corpus.reader import files_of_lane, reader_metadata
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.state import SPLITS
from pipeline_lib.corpus.verify import shards_by_lane
from pipeline_lib.errors import SourceChanged
from pipeline_lib.records import FOLDER, LOCAL, ShardRecord
from pipeline_lib.selection import Split
from pipeline_lib.shuffling import Dice, Row, ShuffleBuffer
from pipeline_lib.sources.corpus_source import CorpusSource, blocks, check_sealed
from pipeline_lib.sources.resolve import resolve_parquet_files
from pipeline_lib.tokenization.equality import NASTY
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer

SAMPLED_DOCUMENTS = 64
"""Documents compared in each split of a lane, out of its first ``SAMPLED_TOKENS`` tokens."""
SAMPLED_TOKENS = 1 << 20
SAMPLED_LANES = 4
"""Lanes that are compared: the first ones."""
SAMPLED_ROWS = 200_000
"""Rows of a lane that are visited at most; documents of a rare split behind them are not
compared."""
LONGEST = 4 << 20
"""Longer texts (in bytes) are not compared: the reference encoder reads about 1 MB/s."""


class Compared(NamedTuple):
    """The result: ``faults`` holds the first fault, if there is one, and ``done`` is one line that
    says how many documents were compared, and how."""

    faults: list[str]
    done: str


class _Document(NamedTuple):
    """A published document: where it is, its ids without the end token, its text (UTF-8)."""

    where: str
    ids: NDArray[Any]
    text: bytes


def verify_against(folder: Path, source: str, tokenizer: str | None) -> Compared:
    """``verify_against_source`` with a source and a tokenizer that are named.

    ``tokenizer`` may be None if the recorded one is on the Hub; else ``ValueError``.
    """
    recipe = manifest.load(folder)["recipe"]
    where = tokenizer or recipe["tokenizer"]
    if where == LOCAL:
        raise ValueError("the folder was made with a local tokenizer; give it by --tokenizer")
    revision = None if recipe["dataset"] == FOLDER else recipe["revision"]
    opened = resolve_parquet_files(source, recipe["config"], revision)
    recorded = None if tokenizer else recipe["tokenizer_revision"]
    loaded = load_tokenizer(where, revision=recorded, eos_token=recipe["eos_token"])
    return verify_against_source(folder, opened, loaded)


def verify_against_source(folder: Path, source: CorpusSource, tokenizer: Tokenizer) -> Compared:
    """Make the first documents of each split again from the source and compare their ids.

    ``source`` and ``tokenizer`` have to be those of the manifest; another one is a fault. The cost
    is reading as many rows as the shuffle buffer holds, and some seconds of encoding.
    """
    found = manifest.load(folder)
    nothing = "no document was compared"
    for name, given, recorded in (
        ("source", source.revision, found["recipe"]["revision"]),
        ("tokenizer", tokenizer.sha256, found["tokenizer"]["sha256"]),
    ):
        if given != recorded:
            return Compared([f"{folder} was made from the {name} {recorded}, not {given}"], nothing)
    try:
        check_sealed(source, manifest.source_seals(found))
        recipe = Recipe.from_fields(found["recipe"])
    except SourceChanged as error:
        return Compared([f"{folder} was made from other content: {error}"], nothing)
    except ValueError as error:
        return Compared([f"{folder}: {error}"], nothing)
    documents: list[_Document] = []
    for lane in range(min(recipe.lanes, SAMPLED_LANES)):
        wanted = {
            split: _first_documents(folder, shards_by_lane(found, split)[lane], tokenizer.eos_id)
            for split in SPLITS
        }
        missing = _give_texts(wanted, recipe, _visited(source, recipe, lane), documents)
        if missing:
            return Compared([f"{folder}: {missing}"], nothing)
    return _compare(folder, documents, tokenizer)


def _first_documents(folder: Path, shards: list[ShardRecord], eos_id: int) -> list[_Document]:
    """A lane's first whole documents in one split, in reverse order, without their texts."""
    parts: list[NDArray[Any]] = [np.empty(0, np.uint32)]
    room = SAMPLED_TOKENS
    for shard in shards:
        parts.append(np.load(folder / shard["file"], mmap_mode="r")[:room])
        room -= len(parts[-1])
        if room <= 0:
            break
    ids = np.concatenate(parts)
    ends = np.flatnonzero(ids == eos_id)[:SAMPLED_DOCUMENTS]
    whole = np.split(ids, ends + 1)[: len(ends)]
    name = shards[0]["file"] if shards else ""
    found = [_Document(f"{name}, document {n}", part[:-1], b"") for n, part in enumerate(whole)]
    return found[::-1]


def _visited(source: CorpusSource, recipe: Recipe, lane: int) -> Generator[Row, None, None]:
    """The rows of a lane in visited order."""
    files = files_of_lane(reader_metadata(source, recipe), lane, recipe.lanes)
    dice = Dice(recipe.seed, shuffling.DOCUMENT_STREAM + lane)
    shuffle = ShuffleBuffer(dice, recipe.shuffle_buffer, recipe.shuffle_buffer_bytes)
    return shuffle.run(blocks(source, files, recipe.text_column, shuffling.START))


def _give_texts(
    wanted: dict[Split, list[_Document]],
    recipe: Recipe,
    visited: Generator[Row, None, None],
    documents: list[_Document],
) -> str | None:
    """Move the wanted documents to ``documents``, in order and each with its text from the source.

    The result is a fault if the source has too few texts.
    """
    prefix = selection.identity_prefix(recipe.seed)
    threshold = selection.val_threshold(recipe.val_fraction)
    rows = 0
    with closing(visited):
        for text in islice(visited, SAMPLED_ROWS):
            rows += 1
            if text is not None and not is_blank(text):
                waiting = wanted[selection.side(selection.identity(prefix, text), threshold)]
                if waiting:
                    documents.append(waiting.pop()._replace(text=text))
            if not any(wanted.values()):
                return None
    left = [waiting[-1].where for waiting in wanted.values() if waiting]
    if left and rows < SAMPLED_ROWS:
        return f"the source ends after {rows:,} rows and gives no text for {left[0]}"
    return None


def _compare(folder: Path, documents: list[_Document], tokenizer: Tokenizer) -> Compared:
    encoded = [document for document in documents if len(document.text) <= LONGEST]
    lossless = all(_decoded(tokenizer, text) == text for text in NASTY)
    for where, ids, text in encoded:
        right = tokenizer.reference.encode([text]).ids
        fault = f"{folder}: {where}: the source's text {text[:60]!r} "
        if not np.array_equal(ids, right):
            fault += f"has ids {right[:8].tolist()}..., the shard holds {ids[:8].tolist()}..."
            return Compared([fault], "not equal")
        if lossless and tokenizer.decode(ids.tolist()).encode() != text:
            return Compared([fault + "does not come back when its ids are decoded"], "not equal")
    return Compared([], _done(len(encoded), len(documents) - len(encoded), lossless))


def _decoded(tokenizer: Tokenizer, text: bytes) -> bytes:
    return tokenizer.decode(tokenizer.reference.encode([text]).ids.tolist()).encode()


def _done(compared: int, long: int, lossless: bool) -> str:
    back = "they decode to the texts" if lossless else "not decoded, as the tokenizer loses text"
    done = f"{compared:,} documents were made again from the source: equal ids; {back}"
    return done + (f"; {long:,} texts above {LONGEST:,} bytes not compared" if long else "")
