"""The report of a look ahead: its verdict, its warnings, what a person reads."""

from pathlib import Path

from pipeline_lib.downloads.sizes import Size
from pipeline_lib.machine import Memory, Volume
from pipeline_lib.preflight.report import DiskNeed, Preflight, StageNeed

GIB = 1 << 30
KNOWN = Size("chat", 1000, 50 * GIB, 100 * GIB)
STAGES = (StageNeed("load", 150 * GIB, 250 * GIB, GIB), StageNeed("sft", 0, 150 * GIB, 2 * GIB))


def report(*, free: int, memory: int, container: bool = False, held: int = 0) -> Preflight:
    purposes = {"saved copies": 100 * GIB, "fetched files": 50 * GIB}
    disk = DiskNeed(Volume(1, Path("/data"), free), 250 * GIB, purposes)
    left = Memory(memory, container)
    return Preflight((KNOWN,), STAGES, (disk,), left, held, old_caches=3 * GIB, limit=-1)


def test_a_run_that_fits_has_no_warnings() -> None:
    found = report(free=300 * GIB, memory=16 * GIB)
    assert found.fits and not found.warnings
    assert str(found).endswith("\nit fits")


def test_what_does_not_fit_is_a_warning_line() -> None:
    found = report(free=200 * GIB, memory=1 * GIB, container=True)
    disk, memory = found.warnings
    assert disk.startswith("WARNING: 268.4 GB are needed on the volume of /data")
    assert "saved copies 107.4 GB, fetched files 53.7 GB" in disk
    assert memory.startswith("WARNING: a run holds about 2.1 GB in memory at its peak, sft")
    assert "container's limit leaves 1.1 GB" in memory
    assert str(found).endswith("\nit does not fit")


def test_what_this_process_holds_already_is_not_asked_for_again() -> None:
    assert not report(free=300 * GIB, memory=GIB).fits
    assert report(free=300 * GIB, memory=GIB, held=GIB).fits


def test_every_stage_has_a_row_and_memory_is_that_of_the_largest() -> None:
    found = report(free=300 * GIB, memory=16 * GIB)
    assert found.stage_table.column("stage") == ["load", "sft"]
    assert found.needed_memory == 2 * GIB
    assert str(found.stage_table) in str(found) and str(found.table) in str(found)


def test_an_unknown_size_makes_every_total_a_lower_bound() -> None:
    disk = DiskNeed(Volume(1, Path("/data"), GIB), 5, {"saved copies": 5})
    sizes = (KNOWN, Size("gone", None, None, None, "not found"))
    found = Preflight(sizes, STAGES, (disk,), Memory(9 * GIB, False), 0, 0, 100)
    assert found.unknown == ("gone",)
    assert "size unknown: gone; every total is a lower bound" in str(found)
    assert str(found).count("at least") == 3
    assert str(found).endswith("\nwhat is known fits")


def test_a_run_with_nothing_left_to_write_says_so() -> None:
    disk = DiskNeed(Volume(1, Path("/data"), GIB), 0, {})
    found = Preflight((KNOWN,), STAGES, (disk,), Memory(9 * GIB, False), 0, 0, -1)
    assert "disk         0 B at peak (nothing is left to write); 1.1 GB free" in str(found)


def test_the_report_gives_the_price_of_lists_and_of_old_caches() -> None:
    text = str(report(free=300 * GIB, memory=16 * GIB))
    assert "listing every row in Python would take 214.7 GB to 322.1 GB" in text
    assert "3.2 GB are held by caches made before" in text


def test_a_notebook_shows_the_same_text_escaped() -> None:
    found = report(free=300 * GIB, memory=16 * GIB)
    assert found._repr_html_().startswith("<pre>source")
