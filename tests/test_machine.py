"""What the machine has left: limits of containers, volumes, what this process holds."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_lib import machine

GIB = 1 << 30
HOST = {"proc/meminfo": f"MemTotal: {128 * GIB // 1024} kB\nMemAvailable: {100 * GIB // 1024} kB"}


def put(root: Path, files: dict[str, str | int]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


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


def test_what_this_process_holds_is_its_anonymous_memory(tmp_path: Path) -> None:
    put(tmp_path, {"proc/self/status": "Name:\tx\nRssAnon:\t    300 kB\nRssFile:\t 9 kB"})
    assert machine.held_memory(tmp_path) == 300 * 1024
    assert machine.held_memory(tmp_path / "elsewhere") == 0


def test_settings_of_the_heap_are_harmless_in_a_process_of_its_own() -> None:
    code = (
        "from pipeline_lib.machine import keep_heap_small, release_memory\n"
        "keep_heap_small()\n"
        "blocks = [bytes(n * 100_000) for n in range(60)]\n"
        "del blocks[::2]\n"
        "release_memory()\n"
        "print(sum(map(len, blocks)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{sum(range(1, 60, 2)) * 100_000}\n")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_memory_goes_back_at_the_ceiling_and_what_is_in_use_there_is_told() -> None:
    code = (
        "from pipeline_lib import machine\n"
        "machine.keep_heap_small()\n"
        "released, size, release = [], machine.SLACK_BYTES, machine.release_memory\n"
        "machine.release_memory = lambda: (released.append(1), release())\n"
        "ceiling = machine.MemoryCeiling(2 * size)\n"
        "fill = lambda: [bytes([1]) * 10_000 for _ in range(3 * size // 10_000)]\n"
        "blocks = fill()[::12]\n"
        "grown, told = machine.held_memory(), [ceiling.enforce()]\n"
        "less = machine.held_memory()\n"
        "told += [ceiling.enforce()]\n"
        "blocks += fill()\n"
        "told += [ceiling.enforce(), ceiling.enforce()]\n"
        "print(len(released), grown - less > size, told)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "3 True [False, False, True, False]\n"), (
        done.stderr
    )
