"""The sources of a run are opened together; all that are missing are named at once."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from download_world import QUICK, spec, texts
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

from pipeline_lib.chat.opened import open_sources
from pipeline_lib.downloads.fetch import fetch_all
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.errors import MissingSources

NAMES = ("good", "gated", "lost", "cut", "bent")
CHOSEN = {name: spec(path=f"acme/{name}") for name in NAMES}


@pytest.fixture
def data_dir(hub: Hub, tmp_path: Path) -> Path:
    for name in NAMES:
        publish_dataset(
            hub, f"acme/{name}", {"default": {"train": [texts("a", "b")]}}, gated=name == "gated"
        )
    return tmp_path


def arrow_file(folder: Path) -> Path:
    return next(folder.glob("*.arrow"))


def test_what_failed_vanished_or_was_damaged_is_named_with_its_reason(data_dir: Path) -> None:
    outcomes = fetch_all(CHOSEN, data_dir, FetchOptions(retries=QUICK))
    shutil.rmtree(data_dir / "lost")
    arrow_file(data_dir / "cut").write_bytes(b"")
    bent = arrow_file(data_dir / "bent")
    bent.write_bytes(b"\x00" * bent.stat().st_size)  # the size is right
    with pytest.raises(MissingSources) as caught:
        open_sources(CHOSEN, data_dir, outcomes)
    head, *reasons = str(caught.value).splitlines()
    assert head.startswith("4 of 5 sources")
    assert reasons[0].startswith("  gated: gated, no token: ")
    for line, name in zip(reasons[1:4], ("lost", "cut", "bent"), strict=True):
        assert line.startswith(f"  {name}: ") and str(data_dir / name) in line
    assert 'ALLOW_MISSING = ("gated", "lost", "cut", "bent",)' in reasons[4]
    allowed = open_sources(CHOSEN, data_dir, outcomes, allow_missing=NAMES)
    assert list(allowed) == ["good"] and list(allowed.missing) == list(NAMES[1:])
    assert allowed.table.rows[0] == ("good", 2, "text", "")
    assert allowed.table.rows[1][:3] == ("gated", None, None)


def test_a_source_that_is_back_is_opened_although_it_may_be_missing(
    hub: Hub, data_dir: Path
) -> None:
    kinds = {name: CHOSEN[name] for name in ("good", "lost")}
    hub.fault("/api/datasets/acme/lost", status=503, times=99)
    options = FetchOptions(retries=QUICK)
    first = open_sources(
        *(kinds, data_dir, fetch_all(kinds, data_dir, options)), allow_missing=["lost"]
    )
    assert "no network" in first.missing["lost"]
    hub.reset()
    publish_dataset(hub, "acme/lost", {"default": {"train": [pa.table({"text": ["x"] * 5})]}})
    second = open_sources(
        *(kinds, data_dir, fetch_all(kinds, data_dir, options)), allow_missing=["lost"]
    )
    assert list(second) == ["good", "lost"] and not second.missing
    assert "note" not in second.table.columns


def test_a_part_of_the_sample_that_failed_counts_too(data_dir: Path) -> None:
    from pipeline_lib.downloads.outcomes import Outcome, Status

    outcomes = fetch_all({"good": CHOSEN["good"]}, data_dir, FetchOptions(retries=QUICK))
    outcomes.append(Outcome("corpus", Status.FAILED, detail="disk full"))
    with pytest.raises(MissingSources, match="corpus: failed: disk full"):
        open_sources({"good": CHOSEN["good"]}, data_dir, outcomes)
