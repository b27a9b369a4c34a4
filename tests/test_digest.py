"""SHA-256 in the few forms that name things."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib import digest
from pipeline_lib.digest import Chain


def test_a_file_and_its_first_bytes_hash_like_the_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 9_000  # longer than one block
    path = tmp_path / "data"
    path.write_bytes(data)
    assert digest.sha256_file(path) == digest.sha256_bytes(data)
    assert digest.sha256_file(path, 1_500_000) == digest.sha256_bytes(data[:1_500_000])
    assert digest.sha256_file(path, 0) == hashlib.sha256().hexdigest()


def test_one_json_value_has_one_spelling() -> None:
    assert digest.canonical_json({"b": [1, 2.5, None], "a": "é"}) == (
        b'{"a":"\\u00e9","b":[1,2.5,null]}'
    )
    assert digest.of_json({"a": 1, "b": 2}) == digest.of_json({"b": 2, "a": 1})


def test_what_json_can_not_say_is_refused() -> None:
    with pytest.raises(ValueError):
        digest.canonical_json({"a": float("nan")})


@given(st.lists(st.binary(max_size=8)), st.integers(0, 20))
def test_a_chain_goes_on_from_its_state(items: list[bytes], cut: int) -> None:
    whole, first = Chain(), Chain()
    whole.extend(items)
    first.extend(items[:cut])
    second = Chain(first.state)
    second.extend(items[cut:])
    assert second.state == whole.state


def test_a_chain_tells_where_one_item_ends() -> None:
    one, other = Chain(), Chain()
    one.extend([b"ab", b"c"])
    other.extend([b"a", b"bc"])
    assert one.state != other.state


def test_the_chain_of_a_sequence_never_changes() -> None:
    chain = Chain()
    chain.extend([b"one", b"", b"three"])
    state = bytes(32)
    for item in (b"one", b"", b"three"):
        folded = state + len(item).to_bytes(8, "little") + hashlib.sha256(item).digest()
        state = hashlib.sha256(folded).digest()
    assert chain.state == state.hex()
    assert chain.state[:16] == "db9adbe70d01f703"


def test_the_digest_of_a_json_value_is_that_of_its_canonical_text() -> None:
    assert digest.of_json({"b": [1, None], "a": "é"}) == digest.sha256_bytes(
        b'{"a":"\\u00e9","b":[1,null]}'
    )
