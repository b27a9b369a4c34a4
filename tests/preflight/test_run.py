"""Will it fit: every stage over every volume, compared with what runs then take."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fit_world import QUICK, RUN, chats, documents, options, run_all, source
from loopback_hub import Hub
from loopback_hub.publish import CONVERTED, publish_dataset

import download_data
from download_data import DATASETS, make_sample
from pipeline_lib import machine
from pipeline_lib.downloads import fetch
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import GATED_NOTE
from pipeline_lib.preflight import run
from pipeline_lib.preflight.amounts import SizingParameters
from pipeline_lib.preflight.disk import DATA, HUB, STAGES, Write
from pipeline_lib.preflight.disk import DATASETS as CACHE
from pipeline_lib.preflight.report import Preflight
from pipeline_lib.preflight.run import run_preflight
from pipeline_lib.sampledata import make
from pipeline_lib.storage import system_calls

CORPUS = ("acme/corpus", "default")
HUB_RUN = SizingParameters(max_len=128, vocab_size=1_024, train_tokens=20_000, corpus=CORPUS)


def look(
    folder: Path, limit: int = -1, parameters: SizingParameters = RUN, **sources: DatasetSpec
) -> Preflight:
    return run_preflight(sources, folder, parameters, options=options(limit))


def publish(
    hub: Hub, path: str = "acme/chat", files: int = 3, *, lines: bool = False, **more: Any
) -> None:
    tables = [chats(400, first=400 * k) for k in range(files)]
    if lines:
        rows = (row for table in tables for row in table.to_pylist())
        text = "".join(json.dumps(row) + "\n" for row in rows)
        hub.repo("dataset", path).commit({"data/train.jsonl": text.encode()})
        return
    publish_dataset(hub, path, {"default": {"train": tables}}, **more)


def there(folder: Path) -> int:
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
def test_disk_is_what_the_whole_run_takes(hub: Hub, tmp_path: Path, kind: str) -> None:
    on_hub, entry = KINDS[kind]
    publish(hub, **on_hub)
    publish_dataset(hub, "acme/corpus", {"default": {"train": [documents(400)] * 2}})
    chosen = source(**entry)
    report = look(tmp_path, parameters=HUB_RUN, chat=chosen)
    fetch.fetch("chat", chosen, tmp_path, options())
    run_all({"chat": chosen}, tmp_path, HUB_RUN, corpus="acme/corpus")
    assert not report.unknown and report.fits
    needed = sum(disk.needed for disk in report.disks)
    assert needed == pytest.approx(there(tmp_path), rel=0.2)
    assert report.stages[-1].disk == pytest.approx(needed, rel=0.01)
    again = look(tmp_path, parameters=HUB_RUN, chat=chosen)
    assert (again.network, [disk.needed for disk in again.disks]) == (0, [0])
    assert again.needed_memory < report.needed_memory


def test_loading_takes_what_a_fetch_really_takes(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub)
    load = look(tmp_path, chat=source()).stages[0]
    peak = 0
    true_unlink = system_calls.system.unlink

    def measure(path: Path) -> None:
        nonlocal peak
        peak = max(peak, there(tmp_path))
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
    reports = [look(tmp_path, limit, chat=source()) for limit in (10, 100, 600, 1_200, -1)]
    costs = [
        [report.network, *(stage.disk for stage in report.stages), report.needed_memory]
        for report in reports
    ]
    for one in zip(*costs, strict=True):
        assert list(one) == sorted(one)
    assert costs[0] < costs[-1] == costs[-2]


def test_longer_rows_cost_more(hub: Hub, tmp_path: Path) -> None:
    publish(hub)
    runs = [SizingParameters(max_len=width, vocab_size=1_024) for width in (32, 64, 256, 1_024)]
    needed = [look(tmp_path, parameters=run, chat=source()).disks[0].needed for run in runs]
    assert needed == sorted(set(needed))


def test_a_gated_source_is_counted_by_its_public_card_and_flagged(hub: Hub, tmp_path: Path) -> None:
    publish(hub, "acme/open")
    publish(hub, gated=True)
    opened = look(tmp_path, chat=source(path="acme/open"))
    gated = look(tmp_path, chat=source())
    assert GATED_NOTE in str(gated) and not gated.unknown
    assert gated.disks[0].needed == pytest.approx(opened.disks[0].needed, rel=0.2)


def test_what_is_unknown_makes_the_totals_a_lower_bound(hub: Hub, tmp_path: Path) -> None:
    publish(hub)
    publish(hub, "acme/closed", gated=True, sizes=False)
    sources = {"closed": source(path="acme/closed"), "gone": source(path="acme/gone")}
    known = look(tmp_path, chat=source())
    report = look(tmp_path, parameters=HUB_RUN, chat=source(), **sources)
    assert report.unknown == ("closed", "gone", "corpus")
    assert report.disks[0].needed == known.disks[0].needed
    assert "at least" in str(report) and str(report).endswith("what is known fits")


def test_the_sample_needs_no_network(hub: Hub, tmp_path: Path) -> None:
    run = SizingParameters(max_len=512, vocab_size=2_048)
    before = run_preflight(DATASETS, tmp_path, run, sample=True)
    assert before.fits and not before.unknown and before.network == 0
    make_sample(DATASETS, tmp_path)
    after = run_preflight(DATASETS, tmp_path, run, sample=True)
    assert before.saved == pytest.approx(machine.folder_bytes(tmp_path), rel=0.1)
    assert after.saved == pytest.approx(machine.folder_bytes(tmp_path), rel=0.1)
    assert {size.present for size in after.sizes} == {True}
    assert (after.stages[0].writes, before.stages[0].writes) == (0, before.saved)
    later = [report.stages[-1].disk - report.stages[0].writes for report in (before, after)]
    assert later[0] == pytest.approx(later[1], rel=0.1)
    assert len(hub.journal) == 0


def test_every_stage_of_the_notebook_has_a_row(tmp_path: Path) -> None:
    run = SizingParameters(max_len=512, vocab_size=2_048, training_rows=4)
    report = run_preflight(DATASETS, tmp_path, run, sample=True)
    assert tuple(stage.name for stage in report.stages) == STAGES
    assert report.needed_memory == report.stages[-1].memory


def test_needs_on_one_volume_are_those_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    steps = [
        Write("load", "fetched files", HUB, 100),
        Write("load", "saved copies", DATA, 300, 300),
        Write("load", "cache of datasets", CACHE, 7),
        Write("load", "saved copies", DATA, 20, 20),
        Write("sft", "token caches", DATA, 50),
    ]
    (disk,) = run._disk_needs(steps, tmp_path / "data")
    assert disk.needed == 100 + 300 + 300
    assert disk.purposes == {
        "fetched files": 100,
        "saved copies": 320,
        "cache of datasets": 7,
        "token caches": 50,
    }


def test_the_default_registry_is_sized_by_name() -> None:
    assert set(make.SAVED_KILOBYTES) == {*download_data.DATASETS, "corpus"}
