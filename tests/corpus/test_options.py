"""Options that make no sense are refused before anything begins."""

from typing import Any

import pytest

from pipeline_lib.corpus.options import PrepareOptions


@pytest.mark.parametrize(
    "wrong", [{"encoder": "fast"}, {"checkpoint_interval": 0}, {"verify": "none"}]
)
def test_options_that_make_no_sense_are_wrong_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
        PrepareOptions(**wrong)
