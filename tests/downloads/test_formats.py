"""Rows of every format, whole and limited."""

import gzip
import json
from pathlib import Path

import pytest
from download_world import get, publish, read, spec, texts
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

from pipeline_lib.errors import SourceError


def test_several_splits_come_one_after_another(hub: Hub, tmp_path: Path) -> None:
    publish_dataset(
        hub, "acme/chat", {"default": {"test": [texts("t")], "train": [texts("a", "b")]}}
    )
    get(tmp_path, spec(splits=("train", "test")))
    assert read(tmp_path) == ["a", "b", "t"]


def test_another_format_than_parquet_goes_the_same_way(hub: Hub, tmp_path: Path) -> None:
    repo = hub.repo("dataset", "acme/chat")
    lines = "".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(20))
    repo.commit({"data/train.jsonl": lines.encode()})
    get(tmp_path / "all", spec())
    assert read(tmp_path / "all") == [f"row {n}" for n in range(20)]
    get(tmp_path / "some", spec(), limit=5)
    assert len(read(tmp_path / "some")) == 5
    done = get(tmp_path / "first", spec(streaming=True), limit=5)
    assert read(tmp_path / "first") == [f"row {n}" for n in range(5)]
    assert done.origin["limit"] == 5


def test_json_lines_may_be_packed_and_are_sampled_like_others(hub: Hub, tmp_path: Path) -> None:
    repo = hub.repo("dataset", "acme/chat")
    lines = [json.dumps({"text": f"row {n}", "more": n}).encode() + b"\n" for n in range(20)]
    packed = {f"data/train-{k}.jsonl.gz": gzip.compress(b"".join(lines[k::2])) for k in (0, 1)}
    repo.commit(packed)
    get(tmp_path / "all", spec())
    assert read(tmp_path / "all") == [f"row {n}" for n in (*range(0, 20, 2), *range(1, 20, 2))]
    get(tmp_path / "some", spec(), limit=5, seed=3)
    get(tmp_path / "same", spec(), limit=5, seed=3)
    assert read(tmp_path / "some") == read(tmp_path / "same") and len(read(tmp_path / "some")) == 5
    get(tmp_path / "first", spec(streaming=True), limit=5)
    assert read(tmp_path / "first") == [f"row {n}" for n in range(0, 10, 2)]


def test_a_table_of_text_and_a_list_of_json_go_through_the_library(
    hub: Hub, tmp_path: Path
) -> None:
    hub.repo("dataset", "acme/table").commit({"train.csv": b"text\na\nb\nc\n"})
    hub.repo("dataset", "acme/list").commit({"train.json": b'[{"text": "a"}, {"text": "b"}]'})
    get(tmp_path / "table", spec(path="acme/table", streaming=True), limit=2)
    get(tmp_path / "list", spec(path="acme/list"))
    assert read(tmp_path / "table") == read(tmp_path / "list") == ["a", "b"]


def test_a_file_the_library_can_not_read_is_named(hub: Hub, tmp_path: Path) -> None:
    hub.repo("dataset", "acme/chat").commit({"train.json": b'[{"text": "a"}, {"te'})
    with pytest.raises(SourceError, match=r"acme/chat at .* can not be read as json: .*Pin an"):
        get(tmp_path, spec())
    assert not (tmp_path / "chat").exists()


def test_a_streaming_source_is_fetched_only_as_far_as_the_limit(hub: Hub, tmp_path: Path) -> None:
    publish(hub, *(texts(*(f"{file}-{row}" for row in range(10))) for file in range(4)))
    get(tmp_path, spec(streaming=True), limit=12)
    assert read(tmp_path) == [f"0-{n}" for n in range(10)] + ["1-0", "1-1"]
    assert len(hub.journal.matching("/cdn/", "GET")) == 2


def test_other_sources_give_a_seeded_sample_of_few_files(hub: Hub, tmp_path: Path) -> None:
    publish(hub, *(texts(*(f"{file}-{row}" for row in range(10))) for file in range(4)))
    get(tmp_path / "a", spec(), limit=5, seed=3)
    get(tmp_path / "b", spec(), limit=5, seed=3)
    get(tmp_path / "c", spec(), limit=5, seed=4)
    assert read(tmp_path / "a") == read(tmp_path / "b") != read(tmp_path / "c")
    assert len(set(read(tmp_path / "a"))) == 5
    assert len(hub.journal.matching("/cdn/", "GET")) <= 2


@pytest.mark.parametrize("limit", [6, 99])
def test_a_limit_above_the_rows_takes_them_all(hub: Hub, tmp_path: Path, limit: int) -> None:
    publish(hub, texts(*"abc"), texts(*"def"))
    get(tmp_path / "sampled", spec(), limit=limit)
    get(tmp_path / "streamed", spec(streaming=True), limit=limit)
    assert sorted(read(tmp_path / "sampled")) == read(tmp_path / "streamed") == list("abcdef")


def test_every_fetched_file_is_told_with_its_number(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts("a"), texts("b"))
    told: list[tuple[str, int, int]] = []
    get(tmp_path, spec(), on_progress=lambda name, done, of: told.append((name, done, of)))
    names = [f"default/train-0000{k}-of-00002.parquet" for k in (0, 1)]
    assert told == [(names[0], 1, 2), (names[1], 2, 2)]
