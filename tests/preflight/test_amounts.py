"""Amounts of later stages from sizes of sources: each kind of source, limits, weights."""

from typing import Any

import pytest
from fit_world import source

from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight.amounts import CorpusSize, Expected, SizingParameters, expect
from pipeline_lib.preflight.ratios import CONVERSATION_BYTES, MESSAGES_A_TREE

MB = 1_000_000
CHAT = Size("chat", 1_000, 2 * MB, 4 * MB, text=3 * MB)


def of(size: Size = CHAT, kind: DatasetSpec | None = None, limit: int = -1, **run: Any) -> Expected:
    chosen = SizingParameters(**({"max_len": 1_024, "vocab_size": 8_192} | run))
    return expect([size], {"chat": kind or source()}, chosen, CorpusSize(), limit)


def test_a_row_is_a_conversation_and_its_text_is_stored() -> None:
    (amount,) = of().amounts
    assert amount.conversations == 1_000
    assert 0.8 * 3 * MB <= amount.stored <= 3 * MB


def test_without_knowing_what_is_read_a_share_of_the_copy_is_taken_for_text() -> None:
    assert 0 < of(Size("chat", 1_000, 0, 4 * MB)).stored < 4 * MB


def test_without_knowing_the_rows_the_text_tells_the_conversations() -> None:
    (amount,) = of(Size("chat", None, 0, 4 * MB, text=3 * MB)).amounts
    assert amount.conversations == pytest.approx(amount.stored / CONVERSATION_BYTES, abs=1)


def test_an_unknown_source_counts_as_nothing() -> None:
    found = of(Size("chat", None, None, None))
    assert (found.stored, found.sft_rows, found.stream_tokens) == (0, 0, 0)


def test_of_a_tree_source_one_path_a_tree_is_stored() -> None:
    (amount,) = of(kind=source(group="id")).amounts
    assert amount.conversations == pytest.approx(1_000 / MESSAGES_A_TREE, abs=1)
    assert amount.stored < 0.5 * 3 * MB
    assert amount.messages == 1_000


def test_documents_make_rows_but_no_pairs() -> None:
    assert of(kind=source(role="encyclopedic")).dpo_rows == 0
    assert of(kind=source(role="encyclopedic")).sft_rows == of().sft_rows == of().dpo_rows > 0


def test_a_limit_leaves_its_share() -> None:
    whole, part = of(), of(limit=250)
    assert part.amounts[0].conversations == 250
    assert part.stored == pytest.approx(whole.stored / 4, rel=0.01)
    assert of(limit=1_000).amounts == of(limit=5_000).amounts == whole.amounts


def test_weights_multiply_the_pretraining_text_alone() -> None:
    once, twice = of(), of(weights={"chat": 2.0, "other": 9.0})
    assert twice.stream_tokens == pytest.approx(2 * once.stream_tokens, rel=0.01)
    assert twice.sft_rows == once.sft_rows and twice.stored == once.stored


def test_more_length_never_means_fewer_rows() -> None:
    rows = [of(max_len=width).sft_rows for width in (16, 64, 256, 1_024, 4_096)]
    assert rows == sorted(rows) and rows[0] < rows[-1] <= 950


def test_a_token_bound_holds_for_both_splits_and_not_beyond_the_corpus() -> None:
    def tokens(text: int, bound: int | None) -> int:
        run = SizingParameters(max_len=8, vocab_size=8_192, train_tokens=bound, val_fraction=0.2)
        return expect([], {}, run, CorpusSize(text, 100), -1).shard_tokens

    assert tokens(100 * MB, 1_000_000) == 1_250_000
    assert tokens(1 * MB, 1_000_000) == tokens(1 * MB, None) < 500_000
    assert tokens(0, 1_000_000) == 0


def test_the_shuffle_buffer_is_bounded_by_documents_bytes_and_the_corpus() -> None:
    assert CorpusSize(5 * MB, 100).shuffled == 5 * MB
    assert CorpusSize(1_000 * MB, 100_000).shuffled == 100 * MB
    assert CorpusSize(100_000 * MB, 100_000).shuffled == 256 << 20


@pytest.mark.parametrize("wrong", [{"max_len": 0}, {"vocab_size": 0}, {"val_fraction": 1.0}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        of(**wrong)
