"""What each stage writes: where, in which order, and nothing twice."""

from typing import Any

import pytest
from fit_world import source

from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight.amounts import CorpusSize, SizingParameters, expect
from pipeline_lib.preflight.disk import DATA, DATASETS, HUB, STAGES, Write, writes
from pipeline_lib.preflight.reuse import Made

MB = 1_000_000
CHAT = Size("chat", 1_000, 2 * MB, 4 * MB, text=3 * MB, extra=7)
FETCHED = Size("corpus", 1_000, 5 * MB, 0, text=9 * MB)
NOTHING, EMPTY = Made(), CorpusSize()
MADE = Made(frozenset({"normalized-chat", "tokenizer", "shards", "pretrain", "sft", "dpo"}))


def of(
    *found: Size,
    made: Made = NOTHING,
    corpus: CorpusSize = EMPTY,
    **run: Any,
) -> list[Write]:
    chosen = SizingParameters(**({"max_len": 512, "vocab_size": 8_192} | run))
    chats = [size for size in found if size.name == "chat"]
    return writes(found, expect(chats, {"chat": source()}, chosen, corpus, -1), made)


def kept(steps: list[Write], stage: str) -> int:
    return sum(step.kept for step in steps if step.stage == stage)


def test_a_copy_is_there_twice_while_it_is_saved() -> None:
    steps = [step for step in of(CHAT) if step.stage == "load"]
    assert [(step.place, step.kept, step.passing) for step in steps] == [
        (HUB, 2 * MB, 0),
        (DATASETS, 7, 0),
        (DATA, 4 * MB, 4 * MB),
    ]


def test_what_is_streamed_stays_in_no_cache() -> None:
    streamed = Size("chat", 10, 2 * MB, 4 * MB, streamed=True)
    assert {step.place for step in of(streamed) if step.stage == "load"} == {DATA}


def test_what_is_on_disk_is_not_loaded_again_but_used() -> None:
    present = Size("chat", 1_000, 0, 4 * MB, text=3 * MB, present=True)
    assert kept(of(present), "load") == 0
    assert kept(of(present), "sft") == kept(of(CHAT), "sft") > 0


def test_nothing_is_left_to_write_where_all_is_made() -> None:
    present = Size("chat", 1_000, 0, 4 * MB, text=3 * MB, present=True)
    assert of(present, made=MADE, corpus=CorpusSize(9 * MB, 100)) == []


def test_of_an_unfinished_stage_the_rest_is_left() -> None:
    whole = kept(of(CHAT), "sft")
    assert kept(of(CHAT, made=Made(held={"sft": 1_000_000})), "sft") == whole - 1_000_000
    assert kept(of(CHAT, made=Made(held={"sft": 10**12})), "sft") == 0


def test_a_pair_costs_two_rows_of_ids_mask_and_length() -> None:
    steps = of(CHAT, max_len=100_000)
    assert kept(steps, "sft") == pytest.approx(950 * (100_000 * 5 + 4), rel=0.01)
    assert kept(steps, "dpo") == 2 * kept(steps, "sft")


def test_the_corpus_is_fetched_when_shards_are_made() -> None:
    steps = of(FETCHED, corpus=CorpusSize(9 * MB, 1_000))
    fetched, shards = (step for step in steps if step.stage == "shards")
    assert (fetched.place, fetched.kept) == (HUB, 5 * MB)
    assert shards.place == DATA and shards.passing == shards.kept > 0


@pytest.mark.parametrize(("vocab_size", "width"), [(1 << 16, 2), ((1 << 16) + 1, 4)])
def test_a_token_of_a_shard_takes_what_its_vocabulary_needs(vocab_size: int, width: int) -> None:
    bound = {"train_tokens": 95_000, "vocab_size": vocab_size}
    (shards,) = (s for s in of(corpus=CorpusSize(9 * MB, 1_000), **bound) if s.stage == "shards")
    assert shards.kept == width * 100_000


def test_of_many_shards_only_the_last_is_there_twice() -> None:
    corpus = CorpusSize(10_000 * MB, 10_000_000)
    (shards,) = (s for s in of(corpus=corpus) if s.stage == "shards")
    assert shards.kept > 10 * shards.passing >= 2 * 100_000_000


def test_the_caches_grow_with_max_len_and_never_shrink() -> None:
    totals = [
        sum(step.kept for step in of(CHAT, max_len=width)) for width in (64, 128, 512, 2_048, 8_192)
    ]
    assert totals == sorted(set(totals))


def test_every_stage_but_the_tiny_model_writes() -> None:
    steps = of(CHAT, FETCHED, corpus=CorpusSize(9 * MB, 1_000))
    assert {step.stage for step in steps} == set(STAGES) - {"tiny model"}
