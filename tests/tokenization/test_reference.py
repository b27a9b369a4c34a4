"""The reference encoder."""

import pytest

from pipeline_lib.errors import TokenizerError
from pipeline_lib.tokenization.reference import open_reference


def test_what_is_no_tokenizer_says_how_to_make_one() -> None:
    with pytest.raises(TokenizerError, match=r"can not be loaded: .*; export it again"):
        open_reference(b'{"model": {"type": "None of these"}}')
