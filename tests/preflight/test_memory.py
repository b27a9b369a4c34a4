"""Memory at each stage: its bounds, the amounts it grows with, and those it does not."""

from typing import Any, get_args

import pytest
from fit_world import ALL_DONE, corpus_of, source

from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight.amounts import SizingParameters, expect
from pipeline_lib.preflight.disk import Stage
from pipeline_lib.preflight.memory import memory_peaks
from pipeline_lib.preflight.reuse import Reusable

MB = 1_000_000
SAMPLE = (Size("chat", 9_000, 0, 3 * MB, text=5 * MB), corpus_of(3 * MB, 3_600))
CHATS = (Size("chat", 55_000, 82 * MB, 198 * MB, text=160 * MB), corpus_of(240 * MB, 50_000))
HUGE = (
    Size("chat", 2_000_000, 0, 9_000 * MB, text=9_000 * MB),
    corpus_of(40_000 * MB, 10_000_000),
)
"""A chat data set and a corpus."""
NOTHING = Reusable()


def peaks(
    sizes: tuple[Size, Size | None],
    held: Reusable = NOTHING,
    group: str | None = None,
    **chosen: Any,
) -> dict[Stage, int]:
    chat, corpus = sizes
    parameters = SizingParameters(**({"max_len": 512, "vocab_size": 2_048} | chosen))
    amounts = expect([chat], corpus, {"chat": source(group=group)}, parameters, -1)
    return memory_peaks([chat], amounts, held)


def test_every_stage_has_a_figure_and_the_tiny_model_only_where_there_is_one() -> None:
    assert tuple(peaks(SAMPLE, training_rows=4)) == get_args(Stage)
    assert tuple(peaks(SAMPLE)) == get_args(Stage)[:-1]


def test_the_figures_are_those_that_were_measured() -> None:
    sample = peaks(SAMPLE, training_rows=4)
    assert sample["load"] == pytest.approx(309 * MB, rel=0.3)
    assert sample["dpo"] == pytest.approx(393 * MB, rel=0.2)
    assert sample["tiny model"] == pytest.approx(731 * MB, rel=0.2)
    parameters = {"max_len": 2_048, "vocab_size": 32_768, "train_tokens": 50 * MB}
    chats = peaks(CHATS, **parameters, training_rows=1)
    assert chats["load"] == pytest.approx(434 * MB, rel=0.2)
    assert chats["tokenizer"] == pytest.approx(1_169 * MB, rel=0.2)
    assert chats["shards"] == pytest.approx(957 * MB, rel=0.2)
    assert chats["dpo"] == pytest.approx(798 * MB, rel=0.2)
    assert chats["tiny model"] == pytest.approx(1_981 * MB, rel=0.2)


def test_a_corpus_fifty_times_as_large_does_not_take_twice_as_much() -> None:
    parameters = {"max_len": 2_048, "vocab_size": 32_768, "training_rows": 1}
    small, large = (max(peaks(sizes, **parameters).values()) for sizes in (CHATS, HUGE))
    assert small < large < 2 * small


@pytest.mark.parametrize("name", ["max_len", "vocab_size", "training_rows"])
def test_the_tiny_model_grows_with_its_logits(name: str) -> None:
    start = {"max_len": 512, "vocab_size": 2_048, "training_rows": 4}
    bigger = (start | {name: start[name] * k} for k in (1, 2, 4))
    sizes = [peaks(SAMPLE, **parameters)["tiny model"] for parameters in bigger]
    assert sizes == sorted(set(sizes))


def test_a_complete_stage_does_not_train_or_encode_again() -> None:
    assert max(peaks(CHATS, ALL_DONE).values()) < 0.6 * max(peaks(CHATS).values())


def test_of_message_trees_the_places_of_all_messages_are_held() -> None:
    sizes = (Size("chat", 130_000, 0, 170 * MB), None)
    plain, tree = (peaks(sizes, group=group)["conversations"] for group in (None, "id"))
    assert 60 * MB < tree - plain < 170 * MB
