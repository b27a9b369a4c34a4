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
from pipeline_lib.tokenization.refusals import encode_each
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer

SAMPLED_DOCUMENTS = 10_000
"""Documents compared in each split of a lane, out of its first ``SAMPLED_TOKENS`` tokens."""
SAMPLED_TOKENS = 1 << 19
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
    """A published document: where it is, its ids without the end token, the visited row it came
    from if that is recorded, its text (UTF-8), and the ids of the reference unless it is long."""

    where: str
    ids: NDArray[Any]
    row: int | None
    text: bytes = b""
    right: NDArray[np.uint32] | None = None


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
        visited = _visited(source, recipe, lane)
        missing = _give_texts(wanted, recipe, visited, documents, tokenizer)
        if missing:
            return Compared([f"{folder}: {missing}"], nothing)
    written = found["counts"]["train_documents"] + found["counts"]["val_documents"]
    return _compare(folder, documents, tokenizer, written)


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
    rows = [shards[0].get("first_row"), *[None] * len(whole)] if shards else []
    places = zip(whole, rows, strict=False)
    found = [_Document(f"{name}, document {n}", p[:-1], row) for n, (p, row) in enumerate(places)]
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
    tokenizer: Tokenizer,
) -> str | None:
    """Move the wanted documents to ``documents``, in order and each with its text from the source.

    Texts that the reference can not give ids to became no documents. The result is a fault if the
    source has too few texts, or if a document came from another row than is recorded.
    """
    prefix = selection.identity_prefix(recipe.seed)
    threshold = selection.val_threshold(recipe.val_fraction)
    rows = 0
    with closing(visited):
        for text in islice(visited, SAMPLED_ROWS):
            rows += 1
            if text is not None and not is_blank(text):
                waiting = wanted[selection.side(selection.identity(prefix, text), threshold)]
                right = _ids(text, tokenizer) if waiting and len(text) <= LONGEST else None
                if waiting and (right is None or _is_document(right, tokenizer)):
                    document = waiting.pop()._replace(text=text, right=right)
                    if document.row not in (None, rows - 1):
                        return f"{document.where} came from row {rows - 1}, not {document.row}"
                    documents.append(document)
            if not any(wanted.values()):
                return None
    left = [waiting[-1].where for waiting in wanted.values() if waiting]
    if left and rows < SAMPLED_ROWS:
        return f"the source ends after {rows:,} rows and gives no text for {left[0]}"
    return None


def _ids(text: bytes, tokenizer: Tokenizer) -> NDArray[np.uint32]:
    """Ids of the reference; none if it refuses the text."""
    return encode_each(tokenizer.reference, [text]).encoded.ids


def _is_document(ids: NDArray[np.uint32], tokenizer: Tokenizer) -> bool:
    return len(ids) > 0 and not (ids == tokenizer.eos_id).any()


def _compare(
    folder: Path, documents: list[_Document], tokenizer: Tokenizer, written: int
) -> Compared:
    lossless = all(_decoded(tokenizer, text) == text for text in NASTY)
    compared = 0
    for where, ids, _, text, right in documents:
        if right is None:
            continue
        compared += 1
        fault = f"{folder}: {where}: the source's text {text[:60]!r} "
        if not np.array_equal(ids, right):
            fault += f"has ids {right[:8].tolist()}..., the shard holds {ids[:8].tolist()}..."
            return Compared([fault], "not equal")
        if lossless and tokenizer.decode(ids.tolist()).encode() != text:
            return Compared([fault + "does not come back when its ids are decoded"], "not equal")
    return Compared([], _done(compared, written, len(documents) - compared, lossless))


def _decoded(tokenizer: Tokenizer, text: bytes) -> bytes:
    return tokenizer.decode(_ids(text, tokenizer).tolist()).encode()


def _done(compared: int, written: int, long: int, lossless: bool) -> str:
    back = "they decode to the texts" if lossless else "not decoded, as the tokenizer loses text"
    share = f"all {written:,}" if compared == written else f"{compared:,} of {written:,}"
    done = (
        f"{share} documents were made again from the source by the reference encoder: equal ids; "
        f"{back}"
    )
    return done + (f"; {long:,} texts above {LONGEST:,} bytes not compared" if long else "")
