"""Rules of thumb: tokens by vocabulary."""

import pytest

from pipeline_lib.preflight.ratios import bytes_per_token

MEASURED = {1_024: 2.05, 2_048: 2.38, 4_096: 2.72, 8_192: 3.04, 16_384: 3.32, 32_768: 3.55}


@pytest.mark.parametrize("vocab_size", MEASURED)
def test_bytes_in_a_token_are_those_measured_on_real_text(vocab_size: int) -> None:
    assert bytes_per_token(vocab_size) == pytest.approx(MEASURED[vocab_size], rel=0.03)


def test_a_token_is_never_less_than_a_byte() -> None:
    assert bytes_per_token(1) == bytes_per_token(64) == 1.0


@pytest.mark.parametrize(("vocab_size", "measured"), [(400, 2.19), (2_048, 4.82)])
def test_bytes_in_a_token_of_the_sample_are_those_measured(
    vocab_size: int, measured: float
) -> None:
    assert bytes_per_token(vocab_size, sample=True) == pytest.approx(measured, rel=0.03)
