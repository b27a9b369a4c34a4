"""Run All without a source that was asked for: it stops, or every table says so."""

from pathlib import Path
from typing import Any

import notebook
import pyarrow as pa
import pytest
import sample_rows
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

import download_data
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.errors import MissingSources
from pipeline_lib.sampledata.schemas import SCHEMAS

NAMES = ("soda", "dailydialog", "wildchat")


@pytest.fixture(autouse=True)
def three_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small registry, with the columns of the real one, and no waiting."""
    small = {
        name: DatasetSpec(
            path=f"acme/{name}",
            role="dialogue",
            columns=download_data.DATASETS[name].columns,
            licence="MIT",
            citation="none",
        )
        for name in NAMES
    }
    monkeypatch.setattr(download_data, "DATASETS", small)


def publish(hub: Hub, name: str, **access: Any) -> None:
    rows = sample_rows.rows(name)[:60]
    table = pa.Table.from_pylist(rows, SCHEMAS[name])
    publish_dataset(hub, f"acme/{name}", {"default": {"train": [table]}}, **access)


def run(data_dir: Path, until: str, **parameters: Any) -> dict[str, Any]:
    weights = {"WEIGHTS": {"soda": 2.0, "dailydialog": 1.0}}
    return notebook.cells_until(
        until, data_dir, SOURCE="hub", CORPUS=None, **(weights | parameters)
    )


def test_run_all_stops_at_stage_2_and_names_every_source_that_is_missing(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(hub, "soda")
    publish(hub, "wildchat", gated=True)
    with pytest.raises(MissingSources) as caught:
        run(tmp_path, "load-look")
    assert "2 of 3 sources" in str(caught.value)
    assert "dailydialog: not found" in str(caught.value)
    assert "wildchat: gated, no token" in str(caught.value)
    assert "soda           done" in capsys.readouterr().out


def test_what_may_be_missing_is_shown_by_every_stage_and_used_once_it_is_there(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(hub, "soda")
    publish(hub, "dailydialog")
    publish(hub, "wildchat", gated=True)
    first = run(tmp_path, "tokenizer-train", ALLOW_MISSING=("wildchat",))
    tables = [first["rows"].table, first["normalized"].table, first["mixture"].report()]
    for table in tables:
        notes = dict(zip(table.column("source"), table.column("note"), strict=True))
        assert str(notes["wildchat"]).startswith("missing: gated, no token")
        assert notes["soda"] == ""
    assert "made without wildchat: gated, no token" in capsys.readouterr().out
    hub.reset()
    publish(hub, "wildchat")
    again = run(tmp_path, "upsample", ALLOW_MISSING=("wildchat",))
    assert again["mixture"].report().column("source") == list(NAMES)
    assert "note" not in again["mixture"].report().columns
    assert again["mixture"].fingerprint != first["mixture"].fingerprint


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"WEIGHTS": {"soad": 1.0}}, "WEIGHTS names 'soad', which is no source .is it 'soda'"),
        ({"ALLOW_MISSING": ("wildcat",)}, "ALLOW_MISSING names 'wildcat'"),
        ({"ALLOW_MISSING": "wildchat"}, "ALLOW_MISSING is the text 'wildchat'"),
    ],
)
def test_a_name_that_is_not_known_stops_before_anything_is_made(
    tmp_path: Path, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        run(tmp_path, "preflight", **parameters)
    assert not list(tmp_path.iterdir())
