"""Rules of thumb: tokens by vocabulary, rows by width."""

import pytest

from pipeline_lib.preflight.ratios import bytes_per_token, share_within

MEASURED = {1_024: 2.05, 2_048: 2.38, 4_096: 2.72, 8_192: 3.04, 16_384: 3.32, 32_768: 3.55}


@pytest.mark.parametrize("vocab_size", MEASURED)
def test_bytes_in_a_token_are_those_measured_on_real_text(vocab_size: int) -> None:
    assert bytes_per_token(vocab_size) == pytest.approx(MEASURED[vocab_size], rel=0.03)


def test_a_token_is_never_less_than_a_byte() -> None:
    assert bytes_per_token(1) == bytes_per_token(64) == 1.0


def test_the_wider_a_row_the_more_conversations_fit() -> None:
    shares = [share_within(500, width) for width in (8, 64, 512, 2_048, 1 << 20)]
    assert shares == sorted(shares)
    assert shares[0] < 0.01 and shares[-1] > 0.99


def test_half_of_all_conversations_are_shorter_than_the_median_which_is_below_the_mean() -> None:
    assert share_within(1_000, 607) == pytest.approx(0.5, abs=0.01)


def test_conversations_without_tokens_fit() -> None:
    assert share_within(0.0, 1) == 1.0
