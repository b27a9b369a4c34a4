"""Sizes that are stated are the sizes on disk."""

from pathlib import Path

import pytest
from sample_rows import rows

from download_data import DATASETS
from pipeline_lib.downloads.sizes import size_on_disk
from pipeline_lib.sampledata.corpus_files import CORPUS
from pipeline_lib.sampledata.sizes import SAMPLE_NOTE, size_of_sample


@pytest.mark.parametrize("name", [*sorted(DATASETS), CORPUS])
def test_the_stated_size_is_the_size_on_disk(sample: Path, name: str) -> None:
    files = (path for path in (sample / name).rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    assert size_of_sample(name).saved == pytest.approx(size, rel=0.1)


def test_the_sample_is_known_before_it_is_made(sample: Path) -> None:
    for name, spec in DATASETS.items():
        stated, there = size_of_sample(name), size_on_disk(name, sample / name, -1, spec.columns)
        assert there is not None and stated.rows == there.rows == len(rows(name))
        assert stated.saved == pytest.approx(there.saved, rel=0.1)
        assert (stated.network, stated.note) == (0, SAMPLE_NOTE)


def test_a_name_that_is_not_in_the_sample_is_unknown() -> None:
    assert size_of_sample("nope").rows is None and not size_of_sample("nope").known
    assert size_of_sample(CORPUS).rows == 3_600
