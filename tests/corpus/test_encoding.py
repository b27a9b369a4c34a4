"""Between rows and shards: ids in the right range, ends in their place, bounds kept."""

import contextlib
import itertools
import shutil
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import small_recipe, texts, tokenizer_file, write_parquet
from crashes import Killed, committing
from encoder_faults import spoil_gigatoken

from pipeline_lib import selection
from pipeline_lib.corpus.batches import DocumentBatch, VisitCounts
from pipeline_lib.corpus.encoding import EncodingStage, Written, with_end_tokens, write_token_batch
from pipeline_lib.corpus.layout import OPEN, PAYLOAD
from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.rejects import END_TOKEN
from pipeline_lib.corpus.shard_writer import ShardWriter, new_writers
from pipeline_lib.corpus.state import EncoderUsed
from pipeline_lib.errors import EncoderMismatch, TokenizerError
from pipeline_lib.selection import Split
from pipeline_lib.shuffling import START, ShuffleState
from pipeline_lib.tokenization.reference import Encoded, ReferenceEncoder
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer


def batch(
    train: Sequence[bytes], val: Sequence[bytes] = (), places: Sequence[int] = ()
) -> DocumentBatch:
    """A batch whose documents stand at ``places`` of the visited order (train first if empty)."""
    texts = [*train, *val]
    positions = np.array(places or range(len(texts)), np.int64)
    state = ShuffleState(START, 0, [], False)
    return DocumentBatch(texts, len(train), positions, [], VisitCounts(len(texts)), state, False)


def encoded(*lengths: int, first: int = 1) -> Encoded:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Encoded(np.arange(first, first + sum(lengths), dtype=np.uint32), offsets)


def tokenizer(bound: int = 1000, eos: int = 999) -> Tokenizer:
    return Tokenizer(b"{}", "", "<e>", eos, bound, "local", "", reference=None)  # type: ignore[arg-type]


@pytest.fixture
def writers(tmp_path: Path) -> dict[Split, ShardWriter]:
    for room in (OPEN, PAYLOAD):
        (tmp_path / room).mkdir()
    recipe = Recipe(dataset="folder", shard_tokens=1000)
    return new_writers(tmp_path, recipe, np.dtype("<u2"), 0)


def test_every_text_gets_one_end_token_even_one_without_ids() -> None:
    tokens, lengths = with_end_tokens(encoded(2, 0, 3), tokenizer())
    assert tokens.tolist() == [1, 2, 999, 999, 3, 4, 5, 999] and tokens.dtype == np.dtype("<u2")
    assert lengths.tolist() == [3, 1, 4]


def test_a_batch_without_texts_gives_no_tokens() -> None:
    tokens, lengths = with_end_tokens(encoded(), tokenizer())
    assert len(tokens) == len(lengths) == 0


def test_an_id_beyond_the_vocabulary_is_stopped_before_numpy_wraps_it() -> None:
    with pytest.raises(TokenizerError, match="gave id 70001, but ids end at 65535"):
        with_end_tokens(encoded(2, first=70_000), tokenizer(bound=65_536, eos=0))


@pytest.mark.parametrize("bound", [300, 65_536, 65_537, 200_000])
def test_the_largest_id_of_a_vocabulary_is_written_and_the_next_one_is_refused(bound: int) -> None:
    tokens, _ = with_end_tokens(encoded(1, first=bound - 1), tokenizer(bound=bound, eos=0))
    assert tokens.tolist() == [bound - 1, 0]
    with pytest.raises(TokenizerError, match=f"gave id {bound}, but ids end at {bound - 1}"):
        with_end_tokens(encoded(1, first=bound), tokenizer(bound=bound, eos=0))


def test_large_vocabularies_take_four_bytes() -> None:
    tokens, _ = with_end_tokens(encoded(1, first=70_000), tokenizer(bound=70_002, eos=70_001))
    assert tokens.tolist() == [70_000, 70_001] and tokens.dtype == np.dtype("<u4")


def written(writers: dict[Split, ShardWriter], work: DocumentBatch, bound: int | None) -> Written:
    ids = encoded(*[3] * len(work.texts))
    return write_token_batch(writers, work, ids, tokenizer(), bound)


def test_without_a_token_bound_everything_is_written(writers: dict[Split, ShardWriter]) -> None:
    assert written(writers, batch([b"a", b"b"], [b"c"]), None) == Written(False, 0)
    assert (writers["train"].tokens, writers["val"].tokens) == (8, 4)


def test_the_crossing_document_is_the_last_one_of_either_split(
    writers: dict[Split, ShardWriter],
) -> None:
    work = batch([b"a", b"b", b"c"], [b"v", b"w"], places=[0, 2, 3, 1, 4])
    assert written(writers, work, 7) == Written(True, 2)  # b crosses: c and w stand behind it
    assert (writers["train"].documents, writers["val"].documents) == (2, 1)


@pytest.mark.parametrize(
    ("bound", "expected"), [(8, (True, 0)), (9, (False, 0)), (4, (True, 1)), (1, (True, 1))]
)
def test_reaching_the_bound_exactly_is_crossing_it(
    writers: dict[Split, ShardWriter], bound: int, expected: tuple[bool, int]
) -> None:
    assert written(writers, batch([b"a", b"b"]), bound)[:2] == expected


def test_tokens_of_earlier_batches_count_towards_the_bound(
    writers: dict[Split, ShardWriter],
) -> None:
    assert written(writers, batch([b"a"]), 6) == Written(False, 0)
    assert written(writers, batch([b"b", b"c"]), 6) == Written(True, 1)
    assert writers["train"].tokens == 8


def test_validation_alone_never_crosses(writers: dict[Split, ShardWriter]) -> None:
    assert written(writers, batch([], [b"v"] * 9), 5) == Written(False, 0)


def two_batches() -> Generator[DocumentBatch, None, None]:
    yield batch([b"good"])._replace(probes=[0])
    yield batch([b"good", b"bad"])._replace(probes=[1])


def test_a_mismatch_found_while_running_keeps_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_gigatoken(monkeypatch, b"bad")
    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"))
    running = EncodingStage(chosen, "auto", tmp_path / "evidence.txt").run(two_batches())
    next(running)
    with pytest.raises(EncoderMismatch, match=r"evidence\.txt there. Remove .*--encoder tok"):
        next(running)
    assert (tmp_path / "evidence.txt").read_bytes() == b"bad"


def probed_text(seed: int) -> str:
    """A text that every run with this seed compares with the reference."""
    prefix = selection.identity_prefix(seed)
    many = (f"number {n}" for n in itertools.count())
    firsts = ((text, selection.identity(prefix, text.encode())[:8]) for text in many)
    return next(text for text, first in firsts if not int.from_bytes(first, "big") & 0xFFF)


def test_a_run_that_met_a_mismatch_is_refused_whatever_the_encoder_until_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = probed_text(seed=1337)
    write_parquet(tmp_path / "corpus" / "a.parquet", [*texts(60), bad])
    recipe = small_recipe(tmp_path, shuffle_buffer=1)
    with monkeypatch.context() as spoiled:
        spoil_gigatoken(spoiled, bad.encode())
        with pytest.raises(EncoderMismatch, match="Documents that are written may have wrong ids"):
            prepare(recipe, tmp_path / "out")
    for encoder in ("tokenizers", "auto"):
        for resume in (True, "auto", False):
            with pytest.raises(EncoderMismatch, match=r"out\.incomplete .*remove that folder"):
                prepare(recipe, tmp_path / "out", resume, PrepareOptions(encoder=encoder))
    shutil.rmtree(tmp_path / "out.incomplete")
    made = prepare(recipe, tmp_path / "out", False, PrepareOptions(encoder="tokenizers"))
    assert [used["name"] for used in made["measured"]["encoders"]] == ["tokenizers"]


def test_all_encoders_that_took_part_in_a_run_are_recorded_in_order(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    for batches, encoder in ((2, "auto"), (2, "tokenizers"), (0, "auto")):
        with contextlib.suppress(Killed):
            dying = DiesInBatch(batches)
            options = committing(on_progress=dying)
            made = prepare(recipe, tmp_path / "out", "auto", replace(options, encoder=encoder))
    found = [used["name"] for used in made["measured"]["encoders"]]
    assert found == ["gigatoken", "tokenizers", "gigatoken"]


class DiesInBatch:
    """Ends the process in a batch; 0 lets it live."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, progress: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def test_a_mismatch_in_the_first_documents_means_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spoil_gigatoken(monkeypatch, b"good")
    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"))
    stage = EncodingStage(chosen, "auto", tmp_path / "evidence.txt")
    assert len(list(stage.run(two_batches()))) == 2
    assert stage.used is not None and stage.used["name"] == "tokenizers"
    assert "using the reference encoder" in caplog.text and "b'good'" in caplog.text


def test_going_on_behind_the_fast_encoder_there_is_no_way_back_to_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_gigatoken(monkeypatch, b"good")
    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"))
    stage = EncodingStage(chosen, "auto", tmp_path / "evidence.txt")
    stage.before = [EncoderUsed(name="gigatoken", version="0")]
    with pytest.raises(EncoderMismatch, match="Documents that are written may have wrong ids"):
        next(stage.run(two_batches()))
    assert b"b'good'" in (tmp_path / "evidence.txt").read_bytes()


def test_encoders_are_kept_in_order_and_one_that_goes_on_is_named_once(tmp_path: Path) -> None:
    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"))
    stage = EncodingStage(chosen, "tokenizers", tmp_path / "evidence.txt")
    one, two = (EncoderUsed(name=name, version="1") for name in ("gigatoken", "tokenizers"))
    assert stage.encoders == []
    stage.used = two
    assert stage.encoders == [two]
    for before, expected in (([one], [one, two]), ([one, two], [one, two]), ([two, one], 3)):
        stage.before = before
        assert stage.encoders == expected or len(stage.encoders) == expected
        assert stage.before == before


def test_a_document_that_becomes_the_end_token_is_taken_out(tmp_path: Path) -> None:
    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"), eos_token="!")
    stage = EncodingStage(chosen, "auto", tmp_path / "evidence.txt")
    (found,) = stage.run(iter_of(batch([b"the river", b"stop!"])))
    assert found.batch.texts == [b"the river"]
    assert [(one.reason, one.text) for one in found.rejected] == [(END_TOKEN, b"stop!")]


def test_the_first_documents_of_a_lane_and_the_probes_are_decoded_again(tmp_path: Path) -> None:
    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"))
    many = [b"%d" % number for number in range(100)]
    first, later = batch(many), batch(many)._replace(first_row=100, probes=[3, 50])
    stage = EncodingStage(chosen, "auto", tmp_path / "evidence.txt")
    assert [found.compared for found in stage.run(iter_of(first, later))] == [32, 2]


def iter_of(*batches: DocumentBatch) -> Generator[DocumentBatch, None, None]:
    yield from batches


def test_an_encoder_that_can_not_be_chosen_closes_the_batches(tmp_path: Path) -> None:
    closed: list[bool] = []

    def work() -> Generator[DocumentBatch, None, None]:
        try:
            yield batch([b"good"])
        finally:
            closed.append(True)

    batches = work()
    next(batches)
    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"))
    with pytest.raises(ValueError, match="encoder is 'other'"):
        next(EncodingStage(chosen, "other", tmp_path / "evidence.txt").run(batches))
    assert closed


def test_the_stage_gives_batches_with_the_ids_of_the_reference(tmp_path: Path) -> None:
    def work() -> Generator[DocumentBatch, None, None]:
        yield batch([b"the river", b"stone"])
        yield batch([])

    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"))
    found = list(EncodingStage(chosen, "auto", tmp_path / "evidence.txt").run(work()))
    right = ReferenceEncoder(chosen.json).encode([b"the river", b"stone"])
    assert found[0][1].ids.tolist() == right.ids.tolist()
    assert found[0][1].offsets.tolist() == right.offsets.tolist()
    assert len(found[1][1].ids) == 0 and not (tmp_path / "evidence.txt").exists()


def test_no_batch_is_handed_on_before_the_first_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_gigatoken(monkeypatch, b"good")
    chosen = load_tokenizer(tokenizer_file(tmp_path / "tokenizer"))
    right = ReferenceEncoder(chosen.json)
    many = (batch([b"good", b"%d" % number]) for number in range(30))
    found = list(EncodingStage(chosen, "auto", tmp_path / "evidence.txt").run(many))
    assert len(found) == 30
    for made in found:
        assert made.encoded.ids.tolist() == right.encode(made.batch.texts).ids.tolist()
