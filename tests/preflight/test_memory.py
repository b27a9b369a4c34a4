"""Memory at each stage: what bounds it, what it grows with, and what it does not."""

from typing import Any

import pytest
from fit_world import source

from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight.amounts import CorpusSize, SizingParameters, expect
from pipeline_lib.preflight.disk import STAGES
from pipeline_lib.preflight.memory import holds
from pipeline_lib.preflight.reuse import Made

MB = 1_000_000
SAMPLE = (
    Size("chat", 9_000, 0, 3 * MB, text=5 * MB),
    CorpusSize(3 * MB, 3_600),
)  # largest of several
CHATS = (Size("chat", 55_000, 82 * MB, 198 * MB, text=160 * MB), CorpusSize(240 * MB, 50_000))
HUGE = (
    Size("chat", 2_000_000, 0, 9_000 * MB, text=9_000 * MB),
    CorpusSize(40_000 * MB, 10_000_000),
)
NOTHING = Made()
ALL = Made(frozenset({"normalized-chat", "tokenizer", "shards", "pretrain", "sft", "dpo"}))


def of(what: tuple[Size, CorpusSize], made: Made = NOTHING, **run: Any) -> dict[str, int]:
    size, corpus = what
    chosen = SizingParameters(**({"max_len": 512, "vocab_size": 2_048} | run))
    return holds([size], expect([size], {"chat": source()}, chosen, corpus, -1), made)


def test_every_stage_has_a_figure_and_the_tiny_model_only_where_there_is_one() -> None:
    assert tuple(of(SAMPLE, training_rows=4)) == STAGES
    assert tuple(of(SAMPLE)) == STAGES[:-1]


def test_the_figures_are_those_that_were_measured() -> None:
    sample = of(SAMPLE, training_rows=4)
    assert sample["load"] == pytest.approx(309 * MB, rel=0.3)
    assert sample["dpo"] == pytest.approx(393 * MB, rel=0.2)
    assert sample["tiny model"] == pytest.approx(731 * MB, rel=0.2)
    chats = of(CHATS, max_len=2_048, vocab_size=32_768, train_tokens=50 * MB, training_rows=1)
    assert chats["load"] == pytest.approx(434 * MB, rel=0.2)
    assert chats["tokenizer"] == pytest.approx(1_169 * MB, rel=0.2)
    assert chats["shards"] == pytest.approx(957 * MB, rel=0.2)
    assert chats["dpo"] == pytest.approx(798 * MB, rel=0.2)
    assert chats["tiny model"] == pytest.approx(1_981 * MB, rel=0.2)


def test_a_corpus_fifty_times_as_large_does_not_take_three_times_as_much() -> None:
    parameters = {"max_len": 2_048, "vocab_size": 32_768, "training_rows": 1}
    small, large = (max(of(what, **parameters).values()) for what in (CHATS, HUGE))
    assert small < large < 2 * small


@pytest.mark.parametrize("name", ["max_len", "vocab_size", "training_rows"])
def test_the_tiny_model_grows_with_its_logits(name: str) -> None:
    start = {"max_len": 512, "vocab_size": 2_048, "training_rows": 4}
    sizes = [of(SAMPLE, **start | {name: start[name] * k})["tiny model"] for k in (1, 2, 4)]
    assert sizes == sorted(set(sizes))


def test_what_is_made_is_not_trained_or_encoded_again() -> None:
    assert max(of(CHATS, ALL).values()) < 0.6 * max(of(CHATS).values())


def test_of_message_trees_the_places_of_all_messages_are_held() -> None:
    size = Size("chat", 130_000, 0, 170 * MB)
    run = SizingParameters(max_len=512, vocab_size=2_048)
    plain, tree = (
        holds([size], expect([size], {"chat": source(group=group)}, run, CorpusSize(), -1), Made())
        for group in (None, "id")
    )
    assert 60 * MB < tree["conversations"] - plain["conversations"] < 170 * MB
