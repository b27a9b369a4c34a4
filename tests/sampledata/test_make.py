"""The offline sample: exact schemas, the same bytes every time, made anew when it must be."""

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from loopback_hub import Hub
from sample_rows import rows

from download_data import DATASETS, make_sample
from pipeline_lib import digest
from pipeline_lib.columns import check_columns
from pipeline_lib.downloads import saved
from pipeline_lib.sampledata import make
from pipeline_lib.sampledata.corpus_files import CORPUS
from pipeline_lib.sampledata.schemas import SCHEMAS
from pipeline_lib.storage import atomic

DIGESTS = {
    "wildchat": "37440b30f388",
    "soda": "6aca8c8b671f",
    "oasst2": "8e85f06d2180",
    "openthoughts": "b3b2ff121f4d",
    "wikipedia": "3a43891fa692",
    "ultrafeedback": "335747a20f69",
    "ultrachat": "09c347642da2",
    "lmsys": "232b5dc29132",
    "arena": "988ffd8a82e4",
    "dailydialog": "00e68f61d0d3",
    "bst": "5769a744bfec",
    "openr1_math": "215648af557e",
    "general_thought": "8e48b6c3bcab",
    "nemotron": "a78fac63b349",
}
"""Of the rows that each data set has in version 2 of the sample: a change needs a new version."""


@pytest.fixture
def soda(sample: Path, tmp_path: Path) -> Path:
    """A data folder with the sample of one source."""
    for name in ("soda", CORPUS):
        shutil.copytree(sample / name, tmp_path / name)
    return tmp_path


def test_every_registered_source_has_a_sample_and_no_other() -> None:
    assert set(make.SAMPLED) == set(DATASETS) == set(SCHEMAS)


@pytest.mark.parametrize("name", DIGESTS)
def test_the_rows_of_a_version_are_the_same_for_ever(name: str) -> None:
    table = pa.Table.from_pylist(rows(name), schema=SCHEMAS[name])
    assert digest.sha256_bytes(repr(table.to_pylist()).encode())[:12] == DIGESTS[name]


def test_two_runs_make_equal_files_in_seconds_and_ask_no_network(
    sample: Path, hub: Hub, tmp_path: Path
) -> None:
    start = time.monotonic()
    make_sample(DATASETS, tmp_path)
    assert time.monotonic() - start < 20 and len(hub.journal) == 0
    first, second = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in (sample, tmp_path)
    )
    assert first == second
    assert 5e6 < sum(map(len, first.values())) < 30e6


def test_a_second_call_finds_it_there(sample: Path) -> None:
    assert {str(outcome.status) for outcome in make_sample(data_dir=sample)} == {"already there"}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_rows_on_disk_have_the_exact_schema_and_satisfy_the_registry(
    sample: Path, name: str
) -> None:
    dataset = saved.load(sample / name, DATASETS[name].columns, full=True)
    plain = dataset.data.schema.remove_metadata()
    assert plain == SCHEMAS[name]
    check_columns(plain, DATASETS[name].columns, name)
    assert len(dataset) >= 500


def test_a_sample_made_by_another_version_is_made_again(soda: Path) -> None:
    manifest = soda / "soda" / saved.MANIFEST
    old = atomic.load_json(manifest)
    old["origin"]["revision"] = "sample-0"
    atomic.save_json(manifest, old)
    assert [str(o.status) for o in make_sample(["soda"], soda)] == ["done", "already there"]


def test_a_damaged_sample_is_named_and_the_others_are_made(soda: Path) -> None:
    (soda / "soda" / "state.json").unlink()
    first, bst, corpus = make_sample(["soda", "bst"], soda)
    assert (str(first.status), str(bst.status), str(corpus.status)) == (
        *("damaged", "done", "already there"),
    )
    assert "state.json is missing" in first.detail and "remove the folder" in first.detail


def test_a_download_is_never_replaced_by_a_sample(soda: Path) -> None:
    manifest = soda / "soda" / saved.MANIFEST
    fetched = atomic.load_json(manifest)
    fetched["origin"]["path"] = "allenai/soda"
    atomic.save_json(manifest, fetched)
    made, _ = make_sample(["soda"], soda)
    assert not made.status.good and "holds a download of allenai/soda" in made.detail


def test_an_unknown_name_lists_the_samples(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no sample of 'nope'; there are wildchat"):
        make.make_source("nope", tmp_path / "nope", {})
