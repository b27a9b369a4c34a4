"""Will it fit: predictions for all stages and volumes, compared with whole runs."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
from fit_world import PARAMETERS, QUICK, chats, documents, options, run_all, source
from loopback_hub import Hub
from loopback_hub.publish import CONVERTED, publish_dataset

import download_data
from download_data import DATASETS
from pipeline_lib import machine
from pipeline_lib.downloads import fetch
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import GATED_NOTE
from pipeline_lib.preflight.amounts import SizingParameters
from pipeline_lib.preflight.disk import Stage
from pipeline_lib.preflight.report import Preflight
from pipeline_lib.preflight.run import run_preflight
from pipeline_lib.sampledata.make import SAMPLED
from pipeline_lib.storage import system_calls

CORPUS = ("acme/corpus", "default")
WITH_CORPUS = SizingParameters(max_len=128, vocab_size=1_024, train_tokens=20_000, corpus=CORPUS)


def predict(
    folder: Path, limit: int = -1, parameters: SizingParameters = PARAMETERS, **sources: DatasetSpec
) -> Preflight:
    return run_preflight(sources, folder, parameters, options=options(limit))


def publish(
    hub: Hub, path: str = "acme/chat", files: int = 3, *, lines: bool = False, **more: Any
) -> None:
    tables = [chats(200, first=200 * k) for k in range(files)]
    if lines:
        rows = (row for table in tables for row in table.to_pylist())
        text = "".join(json.dumps(row) + "\n" for row in rows)
        hub.repo("dataset", path).commit({"data/train.jsonl": text.encode()})
        return
    publish_dataset(hub, path, {"default": {"train": tables}}, **more)


def bytes_on_disk(folder: Path) -> int:
    """Bytes below a data folder and in the Hub caches."""
    return machine.folder_bytes(folder) + machine.folder_bytes(Path(os.environ["HF_HOME"]))


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "card": ({}, {}),
    "footers": ({"sizes": False}, {}),
    "pointer": ({"converted": True}, {"config": "default", "parquet": CONVERTED}),
    "streaming": ({}, {"streaming": True}),
    "lines": ({"lines": True}, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_predicted_disk_is_that_of_the_whole_run(hub: Hub, tmp_path: Path, kind: str) -> None:
    on_hub, entry = KINDS[kind]
    publish(hub, **on_hub)
    publish_dataset(hub, "acme/corpus", {"default": {"train": [documents(200)] * 2}})
    chosen = source(**entry)
    report = predict(tmp_path, parameters=WITH_CORPUS, chat=chosen)
    fetch.fetch("chat", chosen, tmp_path, options())
    run_all({"chat": chosen}, tmp_path, WITH_CORPUS, corpus="acme/corpus")
    assert not report.unknown and report.fits
    needed = sum(disk.needed for disk in report.disks)
    assert needed == pytest.approx(bytes_on_disk(tmp_path), rel=0.2)
    assert report.stages[-1].disk == pytest.approx(needed, rel=0.01)
    again = predict(tmp_path, parameters=WITH_CORPUS, chat=chosen)
    assert (again.network, [disk.needed for disk in again.disks]) == (0, [0])
    assert again.needed_memory < report.needed_memory


def test_the_predicted_peak_of_loading_is_that_of_a_real_fetch(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub)
    load = predict(tmp_path, chat=source()).stages[0]
    peak = 0
    true_unlink = system_calls.system.unlink

    def measure(path: Path) -> None:
        nonlocal peak
        peak = max(peak, bytes_on_disk(tmp_path))
        true_unlink(path)

    monkeypatch.setattr(
        system_calls.system, "unlink", measure
    )  # the second copy of rows goes by it
    fetch.fetch("chat", source(), tmp_path, FetchOptions(retries=QUICK))
    assert (load.name, load.disk) == ("load", pytest.approx(peak, rel=0.2))


def test_a_limit_bounds_every_stage_and_a_larger_one_never_costs_less(
    hub: Hub, tmp_path: Path
) -> None:
    publish(hub)
    reports = [predict(tmp_path, limit, chat=source()) for limit in (10, 100, 300, 600, -1)]
    costs = [
        [report.network, *(stage.disk for stage in report.stages), report.needed_memory]
        for report in reports
    ]
    for one in zip(*costs, strict=True):
        assert list(one) == sorted(one)
    assert costs[0] < costs[-1] == costs[-2]


def test_a_gated_source_is_counted_by_its_public_card_and_flagged(hub: Hub, tmp_path: Path) -> None:
    publish(hub, "acme/open")
    publish(hub, gated=True)
    opened = predict(tmp_path, chat=source(path="acme/open"))
    gated = predict(tmp_path, chat=source())
    assert GATED_NOTE in str(gated) and not gated.unknown
    # how much of it is read is a rule of thumb there
    assert gated.disks[0].needed == pytest.approx(opened.disks[0].needed, rel=0.25)


def test_an_unknown_size_makes_the_totals_a_lower_bound(hub: Hub, tmp_path: Path) -> None:
    publish(hub)
    publish(hub, "acme/closed", gated=True, sizes=False)
    sources = {"closed": source(path="acme/closed"), "gone": source(path="acme/gone")}
    known = predict(tmp_path, chat=source())
    report = predict(tmp_path, parameters=WITH_CORPUS, chat=source(), **sources)
    assert report.unknown == ("closed", "gone", "corpus")
    assert report.disks[0].needed == known.disks[0].needed
    assert "at least" in str(report) and str(report).endswith("all that is known fits")


def test_to_predict_the_sample_needs_no_network(hub: Hub, sample: Path, tmp_path: Path) -> None:
    parameters = SizingParameters(max_len=512, vocab_size=2_048)
    before = run_preflight(DATASETS, tmp_path, parameters, sample=True)
    assert before.fits and not before.unknown and before.network == 0
    shutil.copytree(sample, tmp_path, dirs_exist_ok=True)
    after = run_preflight(DATASETS, tmp_path, parameters, sample=True)
    assert before.saved == pytest.approx(machine.folder_bytes(tmp_path), rel=0.1)
    assert after.saved == pytest.approx(machine.folder_bytes(tmp_path), rel=0.1)
    assert {size.present for size in after.sizes} == {True}
    assert (after.stages[0].writes, before.stages[0].writes) == (0, before.saved)
    later = [report.stages[-1].disk - report.stages[0].writes for report in (before, after)]
    assert later[0] == pytest.approx(later[1], rel=0.1)
    assert len(hub.journal) == 0


def test_every_stage_of_the_notebook_has_a_row(tmp_path: Path) -> None:
    parameters = SizingParameters(max_len=512, vocab_size=2_048, training_rows=4)
    report = run_preflight(DATASETS, tmp_path, parameters, sample=True)
    assert tuple(stage.name for stage in report.stages) == get_args(Stage)
    assert report.needed_memory == report.stages[-1].memory


def test_the_default_registry_is_sized_by_name() -> None:
    assert set(SAMPLED) == set(download_data.DATASETS)
