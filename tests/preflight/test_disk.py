"""The bytes that each stage writes: where, in which order, and nothing twice."""

from pathlib import Path
from typing import Any, get_args

import pytest
from fit_world import ALL_DONE, corpus_of, source

from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight.amounts import SizingParameters, expect
from pipeline_lib.preflight.disk import DATA, DATASETS, HUB, Stage, Write, disk_needs, peak, writes
from pipeline_lib.preflight.reuse import Held, Reusable

MB = 1_000_000
CHAT = Size("chat", 1_000, 2 * MB, 4 * MB, text=3 * MB, extra=7)
PRESENT = Size("chat", 1_000, 0, 4 * MB, text=3 * MB, present=True)
FETCHED = Size("corpus", 1_000, 5 * MB, 0, text=9 * MB)


def steps_of(
    chat: Size | None, corpus: Size | None = None, held: Reusable | None = None, **chosen: Any
) -> list[Write]:
    parameters = SizingParameters(**({"max_len": 512, "vocab_size": 8_192} | chosen))
    chats = [chat] if chat else []
    amounts = expect(chats, corpus, {"chat": source()}, parameters, -1)
    return writes([*chats, *([corpus] if corpus else [])], amounts, held or Reusable())


def kept(steps: list[Write], stage: Stage) -> int:
    return sum(step.kept for step in steps if step.stage == stage)


def shards_of(corpus: Size, **chosen: Any) -> Write:
    (found,) = (step for step in steps_of(None, corpus, **chosen) if step.purpose == "shards")
    return found


def test_a_copy_is_there_twice_while_it_is_saved() -> None:
    steps = [step for step in steps_of(CHAT) if step.stage == "load"]
    assert [(step.place, step.kept, step.passing) for step in steps] == [
        (HUB, 2 * MB, 0),
        (DATASETS, 7, 0),
        (DATA, 4 * MB, 4 * MB),
    ]


def test_streamed_rows_stay_in_no_cache() -> None:
    streamed = Size("chat", 10, 2 * MB, 4 * MB, streamed=True)
    assert {step.place for step in steps_of(streamed) if step.stage == "load"} == {DATA}


def test_a_copy_on_disk_is_not_loaded_again_but_used() -> None:
    assert kept(steps_of(PRESENT), "load") == 0
    assert kept(steps_of(PRESENT), "sft") == kept(steps_of(CHAT), "sft") > 0


def test_nothing_is_left_to_write_where_all_is_done() -> None:
    assert steps_of(PRESENT, corpus_of(9 * MB, 100), ALL_DONE) == []


def test_of_an_unfinished_stage_the_rest_is_left() -> None:
    whole = kept(steps_of(CHAT), "sft")
    for held, left in ((MB, whole - MB), (10**12, 0)):
        assert kept(steps_of(CHAT, held=Reusable(sft=Held(held))), "sft") == left


def test_a_row_costs_its_ids_and_mask_and_a_record_at_any_width() -> None:
    steps, parameters = steps_of(CHAT), SizingParameters(max_len=512, vocab_size=8_192)
    amounts = expect([CHAT], None, {"chat": source()}, parameters, -1)
    assert kept(steps, "sft") == amounts.tokens["sft"] * 5 + amounts.rows["sft"] * 24
    assert kept(steps, "dpo") == amounts.tokens["dpo"] * 5 + amounts.rows["dpo"] * 45
    assert kept(steps_of(CHAT, max_len=100_000), "sft") == kept(steps, "sft")


def test_the_corpus_is_fetched_when_shards_are_made() -> None:
    fetched, shards = (step for step in steps_of(CHAT, FETCHED) if step.stage == "shards")
    assert (fetched.place, fetched.kept) == (HUB, 5 * MB)
    assert shards.place == DATA and shards.passing == shards.kept > 0


@pytest.mark.parametrize(("vocab_size", "width"), [(1 << 16, 2), ((1 << 16) + 1, 4)])
def test_a_token_of_a_shard_takes_the_bytes_that_its_vocabulary_needs(
    vocab_size: int, width: int
) -> None:
    shards = shards_of(corpus_of(9 * MB, 1_000), train_tokens=95_000, vocab_size=vocab_size)
    assert shards.kept == width * 100_000


def test_of_many_shards_only_the_last_is_there_twice() -> None:
    shards = shards_of(corpus_of(10_000 * MB, 10_000_000))
    assert shards.kept > 10 * shards.passing >= 2 * 100_000_000


def test_every_stage_but_the_tiny_model_writes() -> None:
    steps = steps_of(CHAT, FETCHED)
    assert {step.stage for step in steps} == set(get_args(Stage)) - {"tiny model"}


def test_the_peak_is_the_fullest_moment_not_the_sum() -> None:
    steps = [Write("load", "saved copies", 5, 5), Write("load", "saved copies", 1, 1)]
    assert peak(steps) == 10 and peak([]) == 0
    assert peak([*steps, Write("sft", "token caches", 7)]) == 13


def test_needs_on_one_volume_are_those_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    steps = [
        Write("load", "fetched files", 100, place=HUB),
        Write("load", "saved copies", 300, 300),
        Write("load", "cache of datasets", 7, place=DATASETS),
        Write("load", "saved copies", 20, 20),
        Write("sft", "token caches", 50),
    ]
    (disk,) = disk_needs(steps, tmp_path / "data")
    assert disk.needed == 100 + 300 + 300
    assert disk.purposes == {
        "fetched files": 100,
        "saved copies": 320,
        "cache of datasets": 7,
        "token caches": 50,
    }
