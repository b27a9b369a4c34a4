"""A Hub dataset is read at one commit, whatever its branch does meanwhile."""

import pytest
from corpora import rows
from loopback_hub import Hub
from loopback_hub.publish import parquet_bytes, publish_dataset
from loopback_hub.repository import Repo

from pipeline_lib.errors import HubError
from pipeline_lib.shuffling import START
from pipeline_lib.sources.corpus_source import blocks
from pipeline_lib.sources.hub_files import FOOTERS_ASKED
from pipeline_lib.sources.resolve import resolve_parquet_files


def hub_rows(count: int) -> list[dict[str, str | None]]:
    return [{"text": row} for row in rows(count)]


def publish_more(repo: Repo) -> None:
    repo.edit({"default/train-00000-of-00002.parquet": parquet_bytes([{"text": "new"}])})


def test_a_hub_dataset_is_pinned_to_a_commit_and_read_at_it(hub: Hub) -> None:
    repo = publish_dataset(hub, "acme/docs", {"default": {"train": [hub_rows(10), hub_rows(4)]}})
    source = resolve_parquet_files("acme/docs", None, "main")
    assert (source.dataset, source.revision) == ("acme/docs", repo.sha)
    before = repo.sha
    publish_more(repo)
    assert repo.sha != before
    names = [file["name"] for file in source.files]
    found = [row for block in blocks(source, names, "text", START) for row in block.rows]
    assert len(found) == 14


def test_only_the_train_split_of_the_config_is_read(hub: Hub) -> None:
    files = {"train": [hub_rows(3)], "test": [hub_rows(5)]}
    publish_dataset(hub, "acme/docs", {"en": files, "fr": {"train": [hub_rows(7)]}})
    source = resolve_parquet_files("acme/docs", "fr")
    assert [file["name"] for file in source.files] == ["fr/train-00000-of-00001.parquet"]
    with pytest.raises(HubError, match="has no config 'de'; it has 'en', 'fr'"):
        resolve_parquet_files("acme/docs", "de")


def test_a_config_without_train_files_lists_the_splits_there_are(hub: Hub) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"test": [hub_rows(3)]}})
    with pytest.raises(HubError, match="has no split 'train'; it has 'test'"):
        resolve_parquet_files("acme/docs")


def test_a_hub_file_that_arrives_damaged_is_fetched_again(hub: Hub) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"train": [hub_rows(10)]}})
    source = resolve_parquet_files("acme/docs")
    fault = hub.fault("/cdn/", method="GET", corrupt=True)
    names = [file["name"] for file in source.files]
    assert sum(len(block.rows) for block in blocks(source, names, "text", START)) == 10
    assert fault.times == 0


def test_rows_are_counted_from_footers_unless_they_are_many(hub: Hub) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"train": [hub_rows(10), hub_rows(4)]}})
    few = resolve_parquet_files("acme/docs")
    assert (
        sum((few.rows_by_file() or {}).values()) == 14
        and few.rows_of([few.files[0]["name"]]) is None
    )
    publish_dataset(hub, "acme/many", {"default": {"train": [hub_rows(1)] * (FOOTERS_ASKED + 1)}})
    assert resolve_parquet_files("acme/many").rows_by_file() is None


def test_files_of_equal_content_are_named_in_a_warning(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    publish_dataset(
        hub, "acme/docs", {"default": {"train": [hub_rows(3), hub_rows(4), hub_rows(3)]}}
    )
    resolve_parquet_files("acme/docs")
    (line,) = caplog.messages
    assert "00000-of-00003.parquet and default/train-00002-of-00003.parquet have the same" in line
