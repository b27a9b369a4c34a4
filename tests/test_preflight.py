"""Will it fit: sizes of every kind of source, limits of containers, volumes, warnings."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hub import Hub
from hub.publish import CONVERTED, parquet_bytes, publish_dataset

import download_data
from download_data import DATASETS, make_sample
from pipeline_lib import machine, preflight
from pipeline_lib.downloads import fetch, sizes
from pipeline_lib.downloads.plans import Order
from pipeline_lib.downloads.registry import Source
from pipeline_lib.downloads.sizes import GATED_NOTE, Size
from pipeline_lib.durable import syscalls
from pipeline_lib.preflight import DiskNeed, Preflight
from pipeline_lib.remote.patience import Patience

GIB = 1 << 30
QUICK = Patience(tries=1)
TABLES = [pa.table({"text": [os.urandom(500).hex() for _ in range(400)]}) for _ in range(4)]
TABLE = TABLES[0]


def source(**more: Any) -> Source:
    chosen = {"path": "acme/chat", "columns": {"text": pa.string()}} | more
    return Source(role="dialogue", licence="MIT", citation="none", **chosen)


def look(folder: Path, limit: int = -1, **sources: Source) -> Preflight:
    return preflight.preflight(sources, folder, order=Order(limit=limit, patience=QUICK))


def publish(hub: Hub, files: int = 2, **more: Any) -> int:
    publish_dataset(hub, "acme/chat", {"default": {"train": TABLES[:files]}}, **more)
    return sum(len(parquet_bytes(table)) for table in TABLES[:files])


def put(root: Path, files: dict[str, str | int]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


HOST = {"proc/meminfo": f"MemTotal: {128 * GIB // 1024} kB\nMemAvailable: {100 * GIB // 1024} kB"}


# ---- sources


def test_a_card_that_states_its_sizes_is_believed_and_no_data_is_read(
    hub: Hub, tmp_path: Path
) -> None:
    size = publish(hub)
    (chat,) = look(tmp_path, chat=source()).sizes
    assert (chat.rows, chat.network, chat.saved) == (800, size, 2 * TABLE.nbytes)
    assert chat.note == "from the card"
    assert hub.journal.bytes_sent("/cdn/") == 0


def test_without_stated_sizes_the_footers_are_read_by_range_requests(
    hub: Hub, tmp_path: Path
) -> None:
    size = publish(hub, sizes=False)
    (chat,) = look(tmp_path, chat=source()).sizes
    assert (chat.rows, chat.network) == (800, size)
    assert chat.saved == pytest.approx(2 * TABLE.nbytes, rel=0.1)
    assert 0 < hub.journal.bytes_sent("/cdn/") < size / 2


def test_a_parquet_pointer_is_sized_on_its_branch(hub: Hub, tmp_path: Path) -> None:
    size = publish(hub, converted=True)
    (chat,) = look(tmp_path, chat=source(config="default", parquet=CONVERTED)).sizes
    assert (chat.rows, chat.network, chat.note) == (800, size, "from parquet footers")


def test_other_formats_are_estimated_from_their_files(hub: Hub, tmp_path: Path) -> None:
    lines = hub.repo("dataset", "acme/lines")
    lines.commit({"data/train.jsonl": b'{"text": "a"}\n' * 100})
    table = hub.repo("dataset", "acme/table")
    table.commit({"data/train.csv": b"text\n" + b"a\n" * 100})
    report = look(tmp_path, lines=source(path="acme/lines"), table=source(path="acme/table"))
    assert [(s.network, s.saved, s.extra) for s in report.sizes] == [
        (1400, 1400, 0),
        (205, 205, 205),  # a further copy lies in the cache of datasets
    ]
    assert {size.note for size in report.sizes} == {"estimated from file sizes"}


def test_a_gated_source_without_a_token_is_flagged_and_sized_by_its_public_card(
    hub: Hub, tmp_path: Path
) -> None:
    size = publish(hub, gated=True)
    report = look(tmp_path, chat=source())
    assert report.sizes[0].note == GATED_NOTE == "(gated -- needs HF_TOKEN)"
    assert report.sizes[0].network == size
    assert GATED_NOTE in str(report)


def test_a_gated_source_that_states_nothing_makes_the_total_a_lower_bound(
    hub: Hub, tmp_path: Path
) -> None:
    publish(hub, gated=True, sizes=False)
    report = look(tmp_path, chat=source())
    assert report.unknown == ("chat",)
    assert "size unknown: chat; every total is a lower bound" in str(report)
    assert "at least" in str(report)


def test_what_can_not_be_asked_is_unknown_and_says_why(hub: Hub, tmp_path: Path) -> None:
    publish(hub)
    report = look(tmp_path, chat=source(), gone=source(path="acme/gone"))
    assert report.unknown == ("gone",) and "not found" in report.sizes[1].note


def test_what_is_on_disk_is_measured_and_costs_nothing_more(hub: Hub, tmp_path: Path) -> None:
    publish(hub)
    fetch.fetch("chat", source(), tmp_path, Order(patience=QUICK))
    hub.journal.clear()
    report = look(tmp_path, chat=source())
    assert (report.sizes[0].rows, report.network, report.disks[0].needed) == (800, 0, 0)
    held = sum(path.stat().st_size for path in (tmp_path / "chat").iterdir())
    assert report.sizes[0].saved == pytest.approx(held, rel=0.05)
    assert len(hub.journal) == 0


def test_a_damaged_copy_is_reported_not_counted(hub: Hub, tmp_path: Path) -> None:
    publish(hub)
    fetch.fetch("chat", source(), tmp_path, Order(patience=QUICK))
    (tmp_path / "chat" / "state.json").unlink()
    report = look(tmp_path, chat=source())
    assert report.unknown == ("chat",) and "damaged" in report.sizes[0].note


@pytest.mark.parametrize("streaming", [True, False])
def test_a_limit_scales_what_is_fetched_and_saved(
    hub: Hub, tmp_path: Path, streaming: bool
) -> None:
    size = publish(hub, files=4)
    (chat,) = look(tmp_path, limit=500, chat=source(streaming=streaming)).sizes
    assert chat.rows == 500 and chat.network == pytest.approx(size / 2, rel=0.02)
    assert chat.saved == pytest.approx(4 * TABLE.nbytes * 500 / 1600, rel=0.01)
    done = fetch.fetch("chat", source(streaming=streaming), tmp_path, Order(500, patience=QUICK))
    assert done.size == pytest.approx(chat.saved, rel=0.1)
    assert hub.journal.bytes_sent("/cdn/") == chat.network


def test_a_byte_cap_bounds_the_saved_copy(hub: Hub, tmp_path: Path) -> None:
    publish(hub, files=4)
    (chat,) = look(tmp_path, chat=source(max_bytes=TABLE.nbytes)).sizes
    assert chat.saved == TABLE.nbytes


def test_peak_disk_is_what_a_fetch_really_takes(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, files=4)
    report = look(tmp_path, chat=source())
    peak = 0
    true_unlink = syscalls.system.unlink

    def measure(path: Path) -> None:
        nonlocal peak
        home = machine.folder_bytes(Path(os.environ["HF_HOME"]))
        peak = max(peak, machine.folder_bytes(tmp_path) + home)
        true_unlink(path)

    monkeypatch.setattr(syscalls.system, "unlink", measure)  # the second copy of rows goes by it
    fetch.fetch("chat", source(), tmp_path, Order(patience=QUICK))
    assert sum(disk.needed for disk in report.disks) == pytest.approx(peak, rel=0.2)


def test_the_sample_needs_no_network(hub: Hub, tmp_path: Path) -> None:
    before = preflight.preflight(DATASETS, tmp_path, sample=True)
    assert before.fits and not before.unknown and before.network == 0
    make_sample(DATASETS, tmp_path)
    after = preflight.preflight(DATASETS, tmp_path, sample=True)
    assert before.saved == pytest.approx(machine.folder_bytes(tmp_path), rel=0.1)
    assert after.saved == pytest.approx(machine.folder_bytes(tmp_path), rel=0.1)
    assert {size.present for size in after.sizes} == {True}
    assert len(hub.journal) == 0


# ---- the report


def report(*, free: int, memory: int, container: bool = False) -> Preflight:
    known = Size("chat", 1000, 50 * GIB, 100 * GIB)
    disk = DiskNeed(machine.Volume(1, Path("/data"), free), 250 * GIB, ("saved copies",))
    return Preflight((known,), (disk,), machine.Memory(memory, container), 3 * GIB, -1)


def test_a_run_that_fits_has_no_warnings() -> None:
    found = report(free=300 * GIB, memory=16 * GIB)
    assert found.fits and not found.warnings
    assert str(found).endswith("\nit fits")


def test_what_does_not_fit_is_a_warning_line() -> None:
    found = report(free=200 * GIB, memory=1 * GIB, container=True)
    disk, memory = found.warnings
    assert disk.startswith("WARNING: 268.4 GB are needed on the volume of /data")
    assert memory.startswith("WARNING") and "container's limit leaves 1.1 GB" in memory
    assert str(found).endswith("\nit does not fit")


def test_the_report_gives_the_price_of_lists_and_of_old_caches() -> None:
    text = str(report(free=300 * GIB, memory=16 * GIB))
    assert "listing every row in Python would take 214.7 GB to 322.1 GB" in text
    assert "3.2 GB are held by caches made before" in text


def test_a_notebook_shows_the_same_text_escaped() -> None:
    found = report(free=300 * GIB, memory=16 * GIB)
    assert found._repr_html_().startswith("<pre>source")


# ---- the machine


def test_a_version_2_limit_bounds_the_memory(tmp_path: Path) -> None:
    put(
        tmp_path,
        HOST
        | {
            "proc/self/cgroup": "0::/box",
            "sys/fs/cgroup/box/memory.max": 4 * GIB,
            "sys/fs/cgroup/box/memory.current": 3 * GIB,
        },
    )
    assert machine.available_memory(tmp_path) == (1 * GIB, True)


def test_a_limit_of_a_group_above_counts_and_page_cache_can_be_given_back(tmp_path: Path) -> None:
    put(
        tmp_path,
        HOST
        | {
            "proc/self/cgroup": "0::/pod/box",
            "sys/fs/cgroup/pod/box/memory.max": "max",
            "sys/fs/cgroup/pod/box/memory.current": 1 * GIB,
            "sys/fs/cgroup/pod/memory.max": 8 * GIB,
            "sys/fs/cgroup/pod/memory.current": 6 * GIB,
            "sys/fs/cgroup/pod/memory.stat": f"anon 5\ninactive_file {2 * GIB}",
        },
    )
    assert machine.available_memory(tmp_path) == (4 * GIB, True)


def test_a_version_1_limit_bounds_the_memory(tmp_path: Path) -> None:
    put(
        tmp_path,
        HOST
        | {
            "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc",
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": 2 * GIB,
            "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": GIB // 2,
        },
    )
    assert machine.available_memory(tmp_path) == (3 * GIB // 2, True)


def test_inside_a_container_the_root_group_is_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        HOST
        | {
            "proc/self/cgroup": "4:memory:/docker/abc",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 2 * GIB,
            "sys/fs/cgroup/memory/memory.usage_in_bytes": 1 * GIB,
        },
    )
    assert machine.available_memory(tmp_path) == (1 * GIB, True)


def test_without_a_limit_the_host_decides(tmp_path: Path) -> None:
    put(
        tmp_path,
        HOST
        | {
            "proc/self/cgroup": "4:memory:/\n0::/",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
            "sys/fs/cgroup/memory/memory.usage_in_bytes": 1 * GIB,
            "sys/fs/cgroup/memory.max": "max",
        },
    )
    assert machine.available_memory(tmp_path) == (100 * GIB, False)


def test_a_system_without_these_files_still_has_an_answer(tmp_path: Path) -> None:
    assert machine.available_memory(tmp_path).available > 0


def test_space_is_that_of_the_nearest_folder_behind_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    volume = machine.volume_of(tmp_path / "link" / "not" / "yet")
    assert volume.folder == (tmp_path / "real").resolve() and volume.free > 0


def test_needs_on_one_volume_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    sized = [
        Size("a", 1, 100, 300),
        Size("b", 1, 10, 200, extra=7),
        Size("c", 1, 0, 999, present=True),
    ]
    (disk,) = preflight._disk_needs(sized, tmp_path / "data")
    assert disk.needed == 300 + 200 + 300 + 110 + 7
    assert disk.purposes == ("saved copies", "fetched files", "cache of datasets")


def test_the_default_registry_is_sized_by_name() -> None:
    assert set(sizes.sample.SAVED_KILOBYTES) == {*download_data.DATASETS, "corpus"}
