"""The report of a prediction: its verdict, its warnings, the lines a person reads."""

from pathlib import Path

from pipeline_lib.downloads.sizes import Size
from pipeline_lib.machine import Volume
from pipeline_lib.preflight.disk import DiskNeed
from pipeline_lib.preflight.report import Preflight, StageNeed

GIB = 1 << 30
KNOWN = Size("chat", 1000, 50 * GIB, 100 * GIB)
UNKNOWN = Size("gone", None, None, None, "not found")
STAGES = (StageNeed("load", 150 * GIB, 250 * GIB, GIB), StageNeed("sft", 0, 150 * GIB, 2 * GIB))
PURPOSES = {"saved copies": 100 * GIB, "fetched files": 50 * GIB}
NEED = DiskNeed(Volume(1, Path("/data"), 300 * GIB), 250 * GIB, PURPOSES)


def report(
    *sizes: Size, disk: DiskNeed = NEED, memory: int = 16 * GIB, container: bool = False
) -> Preflight:
    return Preflight(sizes or (KNOWN,), STAGES, (disk,), memory, container, 3 * GIB, limit=-1)


def test_a_run_that_fits_has_no_warnings() -> None:
    assert report().fits and not report().warnings
    assert str(report()).endswith("\nit fits")


def test_a_need_that_does_not_fit_is_a_warning_line() -> None:
    small = NEED._replace(volume=Volume(1, Path("/data"), 200 * GIB))
    found = report(disk=small, memory=GIB, container=True)
    disk, memory = found.warnings
    assert disk.startswith("WARNING: too little disk: 268.4 GB at peak")
    assert "(saved copies 107.4 GB, fetched files 53.7 GB)" in disk
    assert disk.endswith("214.7 GB available on the volume of /data")
    assert memory.startswith("WARNING: too little memory: 2.1 GB at peak (sft)")
    assert memory.endswith("1.1 GB available under the container's limit")
    assert not found.fits and str(found).endswith("\nit does not fit")


def test_disk_and_memory_must_both_suffice() -> None:
    assert not report(memory=GIB).fits
    assert not report(disk=NEED._replace(needed=301 * GIB)).fits
    assert report(disk=NEED._replace(needed=300 * GIB), memory=2 * GIB).fits


def test_every_stage_has_a_row_and_memory_is_that_of_the_largest() -> None:
    found = report()
    assert found.stage_table.column("stage") == ["load", "sft"]
    assert found.needed_memory == 2 * GIB
    assert str(found.stage_table) in str(found) and str(found.table) in str(found)


def test_an_unknown_size_makes_every_total_a_lower_bound() -> None:
    found = report(KNOWN, UNKNOWN)
    assert found.unknown == ("gone",)
    assert "size unknown: gone; every total is a lower bound" in str(found)
    assert str(found).count("at least") == 3
    assert str(found).endswith("\nall that is known fits")


def test_a_long_note_is_cut_in_the_table_and_whole_in_a_warning() -> None:
    note = "not found: " + "a long reason " * 5
    found = report(Size("gone", None, None, None, note))
    assert note not in str(found.table) and "not found: a long" in str(found.table)
    assert f"WARNING: gone: {note}" in found.warnings


def test_a_run_with_nothing_left_to_write_says_so() -> None:
    text = str(report(disk=NEED._replace(needed=0, purposes={})))
    assert "disk         0 B at peak (nothing is left to write); 322.1 GB available" in text


def test_the_report_gives_the_price_of_lists_and_of_old_caches() -> None:
    assert "lists of all rows would take 214.7 GB to 322.1 GB" in str(report())
    assert "old caches   3.2 GB that this run does not use" in str(report())


def test_sizes_are_in_decimal_units() -> None:
    sizes = [Size("a", 1, size, size) for size in (0, 999, 1_000, 999_949, 10**6, 10**15)]
    shown = report(*sizes).table.column("to fetch")[:-1]
    assert shown == ["0 B", "999 B", "1.0 KB", "999.9 KB", "1.0 MB", "1000.0 TB"]


def test_a_notebook_shows_the_same_text_escaped() -> None:
    assert report()._repr_html_().startswith("<pre>source")
    assert "&lt;b&gt;" in report(Size("<b>", 1, 1, 1))._repr_html_()
