"""The one argument of every stage that keeps a cache."""

from pathlib import Path

import pytest

from pipeline_lib.storage.cache_options import CacheOptions


def test_a_site_commits_every_half_hour_and_looks_at_sizes(tmp_path: Path) -> None:
    cache_options = CacheOptions(tmp_path)
    assert cache_options.save_every_seconds == 300
    assert not cache_options.full
    assert CacheOptions(tmp_path, verify="full").full


def test_an_unknown_way_to_verify_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="verify is 'maybe'"):
        CacheOptions(tmp_path, verify="maybe")
