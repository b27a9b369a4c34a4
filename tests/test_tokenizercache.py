"""The tokenizer of a mixture: trained once, loaded after, trained again when the texts change."""

from pathlib import Path

import pytest
from chat_world import chat_of, stored

from pipeline_lib.caches.cachesite import CacheSite
from pipeline_lib.caches.tokenizercache import trained_tokenizer
from pipeline_lib.chat import CONTROL_TOKENS, ENDOFTEXT
from pipeline_lib.chats.mixture import Mixture, mix
from pipeline_lib.errors import CacheError


@pytest.fixture
def mixture(tmp_path: Path) -> Mixture:
    return mix(stored(tmp_path / "in", {"one": [chat_of(i) for i in range(30)]}).train, {}, seed=1)


def test_it_is_trained_once_and_then_loaded(mixture: Mixture, tmp_path: Path) -> None:
    site = CacheSite(tmp_path)
    first = trained_tokenizer(mixture, site, vocab_size=290)
    before = (first.folder / "tokenizer.json").stat().st_mtime_ns
    again = trained_tokenizer(mixture, site, vocab_size=290)
    assert again.tokenizer.sha256 == first.tokenizer.sha256
    assert again.explanation.endswith("used as it is")
    assert (first.folder / "tokenizer.json").stat().st_mtime_ns == before


def test_control_tokens_are_in_it_and_end_a_document(mixture: Mixture, tmp_path: Path) -> None:
    tokenizer = trained_tokenizer(mixture, CacheSite(tmp_path), vocab_size=290).tokenizer
    assert len({tokenizer.token_id(token) for token in CONTROL_TOKENS}) == 5
    assert tokenizer.eos_token == ENDOFTEXT


def test_the_same_texts_give_the_same_file(mixture: Mixture, tmp_path: Path) -> None:
    files = [
        (
            trained_tokenizer(mixture, CacheSite(tmp_path / n), vocab_size=290).folder
            / "tokenizer.json"
        )
        for n in ("a", "b")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_another_size_budget_or_mixture_trains_another(mixture: Mixture, tmp_path: Path) -> None:
    site = CacheSite(tmp_path)
    trained_tokenizer(mixture, site, vocab_size=290)
    assert "vocab_size" in trained_tokenizer(mixture, site, vocab_size=291).explanation
    small = trained_tokenizer(mixture, site, vocab_size=290, max_bytes=50)
    assert "max_bytes" in small.explanation
    other = mix(mixture.conversations, {"one": 2}, seed=1)
    assert "texts_fp" in trained_tokenizer(other, site, vocab_size=290).explanation


def test_a_changed_file_is_refused_with_the_way_out(mixture: Mixture, tmp_path: Path) -> None:
    site = CacheSite(tmp_path)
    path = trained_tokenizer(mixture, site, vocab_size=290).folder / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(CacheError, match=r"not the tokenizer that was trained.*rmtree"):
        trained_tokenizer(mixture, site, vocab_size=290)


def test_sizes_and_budgets_that_can_not_be_are_refused(mixture: Mixture, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="vocab_size"):
        trained_tokenizer(mixture, CacheSite(tmp_path), vocab_size=10)
    with pytest.raises(ValueError, match="max_bytes"):
        trained_tokenizer(mixture, CacheSite(tmp_path), vocab_size=290, max_bytes=0)
