"""From the hub to a saved copy: checked, limited, replaced only by more of the same."""

from pathlib import Path

import pyarrow as pa
import pytest
from download_world import get, get_all, publish, read, spec, texts
from loopback_hub import Hub

from pipeline_lib.downloads.outcomes import Status
from pipeline_lib.errors import ColumnError


def test_a_fetched_source_is_saved_with_its_commit_and_file_hashes(
    hub: Hub, tmp_path: Path
) -> None:
    publish(hub, texts("a", "b"), texts("c"))
    done = get(tmp_path, spec())
    assert read(tmp_path) == ["a", "b", "c"]
    assert done.origin["revision"] == hub.repos["dataset", "acme/chat"].sha
    assert [len(file["sha256"]) for file in done.origin["files"]] == [64, 64]
    assert (done.origin["limit"], done.origin["licence"]) == (-1, "MIT")


def test_a_renamed_column_stops_that_source_with_both_schemas(hub: Hub, tmp_path: Path) -> None:
    publish(hub, pa.table({"content": ["a"]}))
    with pytest.raises(ColumnError, match=r"`text` is absent, expected string.*content: string"):
        get(tmp_path, spec())
    assert not (tmp_path / "chat").exists()


def test_damaged_bytes_never_reach_the_saved_copy(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts(*"abc"))
    hub.fault("/cdn/", corrupt=True)
    get(tmp_path, spec())
    assert read(tmp_path) == ["a", "b", "c"]


def test_a_card_that_states_another_number_of_rows_is_warned_about(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stated = {
        "config_name": "default",
        "download_size": 1,
        "dataset_size": 1,
        "splits": [{"name": "train", "num_bytes": 1, "num_examples": 400}],
    }
    publish(hub, texts(*"abc"), front_matter={"dataset_info": stated})
    get(tmp_path / "full", spec())
    assert "states 400 rows but its files hold 3" in caplog.text
    caplog.clear()
    get(tmp_path / "some", spec(), limit=2)
    assert not caplog.text


def test_trees_are_never_cut_by_a_limit(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts(*"abcdef"))
    done = get(tmp_path, spec(group="text"), limit=2)
    assert done.rows == 6 and done.origin["limit"] == -1


def test_a_byte_limit_keeps_a_prefix(hub: Hub, tmp_path: Path) -> None:
    publish(hub, *(texts(*("x" * 100 for _ in range(10))) for _ in range(4)))
    done = get(tmp_path, spec(max_bytes=1_300))
    assert done.rows == 13


def test_a_byte_limit_counts_the_text_and_no_other_column(hub: Hub, tmp_path: Path) -> None:
    other = ["http://" * 50] * 10
    publish(hub, *(texts(*["x" * 100] * 10).append_column("url", [other]) for _ in range(4)))
    done = get(tmp_path, spec(max_bytes=1_300))
    assert done.rows == 13 and done.origin["capped"] == ["text"]


def test_files_are_fetched_until_their_text_fills_a_byte_limit(hub: Hub, tmp_path: Path) -> None:
    """A footer tells a little more than the text of a file, so it alone would stop too early."""
    publish(hub, *(texts(*(f"{n}{row}" * 50 for row in range(10))) for n in range(4)))
    assert get(tmp_path, spec(max_bytes=2_100)).rows == 21


def test_a_copy_that_was_cut_by_another_count_is_refused(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts(*"abc").append_column("url", [["d", "e", "f"]]))
    both = {"text": pa.string(), "url": pa.string()}
    get_all(tmp_path, chat=spec(max_bytes=9, columns=both))
    outcome = get_all(tmp_path, chat=spec(max_bytes=9, columns=both, capped=("text",)))["chat"]
    assert "capped = ['text', 'url'], download_data.py says ['text']" in outcome.detail


def test_a_smaller_sample_on_disk_is_replaced_by_a_larger_one(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts(*"abcdef"))
    kind = spec(streaming=True)

    def status(limit: int) -> Status:
        return get_all(tmp_path, limit, chat=kind)["chat"].status

    assert [status(limit) for limit in (2, 1, 4)] == [Status.DONE, Status.THERE, Status.DONE]
    assert read(tmp_path) == list("abcd")
    assert [status(limit) for limit in (-1, 2)] == [Status.DONE, Status.THERE]
    assert read(tmp_path) == list("abcdef")


def test_a_second_run_needs_no_network(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts(*"abc"))
    first = get_all(tmp_path, chat=spec())["chat"]
    hub.journal.clear()
    second = get_all(tmp_path, chat=spec())["chat"]
    assert (first.status, second.status) == (Status.DONE, Status.THERE)
    assert (first.rows, first.size) == (second.rows, second.size) == (3, first.size)
    assert len(hub.journal) == 0


def test_a_damaged_copy_is_named_and_not_overwritten(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts(*"abc"))
    get_all(tmp_path, chat=spec())
    (tmp_path / "chat" / "state.json").unlink()
    outcome = get_all(tmp_path, chat=spec())["chat"]
    assert outcome.status is Status.DAMAGED and "state.json is missing" in outcome.detail
    assert not (tmp_path / "chat" / "state.json").exists()


def test_a_copy_of_another_source_or_revision_is_refused_with_both_values(
    hub: Hub, tmp_path: Path
) -> None:
    publish(hub, texts("a"))
    get_all(tmp_path, chat=spec())
    outcome = get_all(tmp_path, chat=spec(path="acme/other"))["chat"]
    assert "'acme/chat', download_data.py says 'acme/other'" in outcome.detail
    outcome = get_all(tmp_path, chat=spec(revision="0" * 40))["chat"]
    assert outcome.status is Status.FAILED and "0" * 40 in outcome.detail
