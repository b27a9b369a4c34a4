"""Amounts of later stages from sizes of sources: each kind of source, limits, weights."""

from typing import Any

import pytest
from fit_world import corpus_of, source

from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import CONVERSATION_BYTES, Size
from pipeline_lib.preflight.amounts import Amounts, SizingParameters, expect, shuffled
from pipeline_lib.preflight.ratios import MESSAGES_A_TREE

MB = 1_000_000
CHAT = Size("chat", 1_000, 2 * MB, 4 * MB, text=3 * MB)


def amounts(
    size: Size = CHAT, spec: DatasetSpec | None = None, limit: int = -1, **chosen: Any
) -> Amounts:
    parameters = SizingParameters(**({"max_len": 1_024, "vocab_size": 8_192} | chosen))
    return expect([size], None, {"chat": spec or source()}, parameters, limit)


def test_a_row_is_a_conversation_and_its_text_is_stored() -> None:
    assert amounts().copies == 1_000
    assert 0.8 * 3 * MB <= amounts().stored["chat"] <= 3 * MB


def test_a_share_of_the_copy_is_taken_for_text_where_the_text_is_not_known() -> None:
    assert 0 < amounts(Size("chat", 1_000, 0, 4 * MB)).stored["chat"] < 4 * MB


def test_the_text_tells_the_conversations_where_the_rows_are_not_known() -> None:
    found = amounts(Size("chat", None, 0, 4 * MB, text=3 * MB))
    assert found.copies == pytest.approx(found.stored["chat"] / CONVERSATION_BYTES, abs=1)


def test_an_unknown_source_counts_as_nothing() -> None:
    found = amounts(Size("chat", None, None, None))
    assert found.stored == {"chat": 0}
    assert {*found.rows.values(), *found.tokens.values()} == {0}


def test_of_a_tree_source_one_path_a_tree_is_stored() -> None:
    found = amounts(spec=source(group="id"))
    assert found.copies == pytest.approx(1_000 / MESSAGES_A_TREE, abs=1)
    assert found.stored["chat"] < 0.5 * 3 * MB
    assert found.messages == 1_000


def test_documents_make_no_pairs_and_rows_only_if_asked_for() -> None:
    article = source(role="encyclopedic")
    left_out, asked_for = amounts(spec=article), amounts(spec=article, sft_documents=True)
    assert left_out.rows["dpo"] == asked_for.rows["dpo"] == left_out.rows["sft"] == 0
    assert asked_for.rows["sft"] == amounts().rows["sft"] == amounts().rows["dpo"] > 0
    assert left_out.tokens["dpo"] == left_out.tokens["sft"] == 0
    assert left_out.tokens["pretrain"] == amounts().tokens["pretrain"]


def test_a_weight_of_0_leaves_nothing_in_any_dataset() -> None:
    none = amounts(weights={"chat": 0.0})
    assert {*none.rows.values(), *none.tokens.values()} == {0}
    assert none.stored == amounts().stored


def test_a_limit_leaves_its_share() -> None:
    whole, part = amounts(), amounts(limit=250)
    assert part.copies == 250
    assert part.stored["chat"] == pytest.approx(whole.stored["chat"] / 4, rel=0.01)
    assert amounts(limit=1_000) == amounts(limit=5_000) == whole


def test_weights_multiply_the_pretraining_text_alone() -> None:
    once, twice = amounts(), amounts(weights={"chat": 2.0, "other": 9.0})
    assert twice.tokens["pretrain"] == pytest.approx(2 * once.tokens["pretrain"], rel=0.01)
    assert twice.rows == once.rows and twice.stored == once.stored


def test_a_pair_has_the_tokens_of_two_rows_and_no_width_changes_them() -> None:
    assert amounts().rows == {"sft": 950, "dpo": 950}
    assert amounts().tokens["dpo"] == 2 * amounts().tokens["sft"] > 0
    assert amounts(max_len=16).tokens == amounts(max_len=4_096).tokens


def test_a_token_bound_holds_for_both_splits_and_not_beyond_the_corpus() -> None:
    def tokens(text: int, bound: int | None) -> int:
        chosen = SizingParameters(max_len=8, vocab_size=8_192, train_tokens=bound, val_fraction=0.2)
        return expect([], corpus_of(text, 100), {}, chosen, -1).shard_tokens

    assert tokens(100 * MB, 1_000_000) == 1_250_000
    assert tokens(1 * MB, 1_000_000) == tokens(1 * MB, None) < 500_000
    assert tokens(0, 1_000_000) == 0


def test_the_shuffle_buffer_is_bounded_by_documents_bytes_and_the_corpus() -> None:
    assert shuffled(5 * MB, 100) == 5 * MB
    assert shuffled(1_000 * MB, 100_000) == 100 * MB
    assert shuffled(100_000 * MB, 100_000) == 256 << 20
    assert shuffled(0, 0) == 0


@pytest.mark.parametrize("wrong", [{"max_len": 0}, {"vocab_size": 0}, {"val_fraction": 1.0}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        amounts(**wrong)
