"""Files known by the digests of their segments."""

import hashlib
from pathlib import Path

import pytest
from durability import broken_promises
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import atomic, folders, segments
from pipeline_lib.storage.segments import FileRecord, SegmentedFile, check_segments, write_segmented


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT", 8)


def expected_record(data: bytes) -> FileRecord:
    parts = [data[i : i + 8] for i in range(0, len(data), 8)]
    return FileRecord(len(data), tuple(hashlib.sha256(part).hexdigest() for part in parts))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=20)), st.integers(0, 8))
def test_the_record_follows_the_bytes_however_they_arrive_and_across_a_reopening(
    tmp_path: Path, pieces: list[bytes], cut: int
) -> None:
    path = tmp_path / "file.bin"
    path.unlink(missing_ok=True)
    record = FileRecord()
    for part in (pieces[:cut], pieces[cut:]):
        file = SegmentedFile(path, record)
        for piece in part:
            file.append(piece)
        record = file.record()
        file.close()
    assert path.read_bytes() == b"".join(pieces)
    assert record == expected_record(b"".join(pieces))
    check_segments(path, record, "", full=True)


def test_what_lies_behind_the_committed_bytes_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"0123456789 and more")
    SegmentedFile(path, expected_record(b"0123456789")).close()
    assert path.read_bytes() == b"0123456789"


def test_a_shorter_file_and_a_changed_open_segment_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"012345678x")
    with pytest.raises(DamagedFile, match="not what was committed"):
        SegmentedFile(path, expected_record(b"0123456789"))
    with pytest.raises(DamagedFile, match="holds 10 bytes but 11"):
        SegmentedFile(path, expected_record(b"0123456789a"))


def test_a_full_check_finds_a_change_in_any_segment(tmp_path: Path) -> None:
    path, record = tmp_path / "file.bin", expected_record(b"0123456789")
    for place in range(10):
        data = bytearray(b"0123456789")
        data[place] ^= 1
        path.write_bytes(data)
        check_segments(path, record, "", full=False)
        with pytest.raises(DamagedFile, match=f"from byte {place // 8 * 8:,} on"):
            check_segments(path, record, "", full=True)


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="is missing, 3 bytes were recorded; do it again"):
        check_segments(tmp_path / "none.bin", expected_record(b"abc"), "do it again", full=False)


def test_a_whole_file_is_recorded_as_one_that_grew(tmp_path: Path) -> None:
    data = bytes(range(20))
    record = write_segmented(tmp_path / "file.bin", data)
    assert record == expected_record(data)
    check_segments(tmp_path / "file.bin", record, "", full=True, exact=True)


def test_bytes_beyond_the_record_are_a_fault_only_where_none_may_be(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"012345678 and more")
    check_segments(path, expected_record(b"012345678"), "", full=True)
    with pytest.raises(DamagedFile, match="has 18 bytes, 9 were recorded"):
        check_segments(path, expected_record(b"012345678"), "", full=False, exact=True)


@pytest.mark.parametrize("early", [1, 1 << 30])
def test_after_a_power_cut_a_file_has_all_that_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: int
) -> None:
    """Also where an fsync that began early saw only a part of it."""
    monkeypatch.setattr("pipeline_lib.storage.appender.EARLY_SYNC", early)

    def write() -> None:
        record = FileRecord()
        for piece in (b"0123456", b"789abcdefghijklmnop"):
            file = SegmentedFile(tmp_path / "file.bin", record)
            for part in (piece[:3], piece[3:]):
                file.append(part)
            file.sync()
            record = file.record()
            file.close()
            whole = write_segmented(tmp_path / f"whole-{record.size}", piece)
            folders.sync_folder(tmp_path)
            record_of_both = {"file.bin": record.size, f"whole-{record.size}": whole.size}
            atomic.save_json(tmp_path / "record.json", record_of_both)

    assert broken_promises(tmp_path, write) == []
