"""The plan of a download: the commit, the files, and the options of the caller."""

from pathlib import Path

import pytest
from download_world import QUICK, get, publish, read, spec, texts
from loopback_hub import Hub
from loopback_hub.publish import CONVERTED, parquet_bytes, publish_dataset

from pipeline_lib.downloads.plans import FetchOptions, plan_download
from pipeline_lib.errors import HubError, SourceError
from pipeline_lib.hub.refusals import Gated


def test_the_revision_is_pinned_and_an_older_one_can_be_named(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts("old"))
    repo = hub.repos["dataset", "acme/chat"]
    old = repo.sha
    repo.edit({"default/train-00000-of-00001.parquet": parquet_bytes(texts("new"))})
    get(tmp_path / "old", spec(revision=old))
    get(tmp_path / "new", spec())
    assert read(tmp_path / "old") == ["old"] and read(tmp_path / "new") == ["new"]


def test_a_config_or_split_that_is_absent_lists_what_is_there(hub: Hub, tmp_path: Path) -> None:
    publish_dataset(
        hub, "acme/chat", {"en": {"train": [texts("a")]}, "fr": {"train": [texts("b")]}}
    )
    with pytest.raises(SourceError, match="no split test; it has train"):
        get(tmp_path, spec(config="en", splits=("test",)))
    with pytest.raises(SourceError, match=r"config 'de'.*en.*fr"):
        get(tmp_path, spec(config="de"))


def test_files_at_the_root_without_a_card_are_found_by_their_names(
    hub: Hub, tmp_path: Path
) -> None:
    repo = hub.repo("dataset", "acme/chat")
    repo.commit(
        {"train.parquet": parquet_bytes(texts("a")), "valid.parquet": parquet_bytes(texts("v"))}
    )
    get(tmp_path, spec(splits=("train", "validation")))
    assert read(tmp_path) == ["a", "v"]


def test_the_converted_branch_is_read_where_the_registry_points_there(
    hub: Hub, tmp_path: Path
) -> None:
    publish(hub, texts("a", "b"), converted=True)
    repo = hub.repos["dataset", "acme/chat"]
    repo.edit({"default/train-00000-of-00001.parquet": None})
    pointer = spec(config="default", parquet=CONVERTED)
    done = get(tmp_path, pointer)
    assert read(tmp_path) == ["a", "b"]
    assert done.origin["revision"] == repo.refs[CONVERTED]


def test_a_partial_conversion_is_refused(hub: Hub, tmp_path: Path) -> None:
    repo = hub.repo("dataset", "acme/chat")
    data = parquet_bytes(texts("a"))
    repo.commit({"default/partial-train/0000.parquet": data}, ref=CONVERTED)
    with pytest.raises(HubError, match="only a part of default/train"):
        get(tmp_path, spec(config="default", parquet=CONVERTED))
    assert not (tmp_path / "chat").exists()


def test_a_plan_names_files_and_figures_and_fetches_no_row(hub: Hub) -> None:
    publish(hub, texts("a", "b"), texts("c"))
    plan = plan_download(spec(), FetchOptions(retries=QUICK))
    assert plan.names == [f"default/train-0000{k}-of-00002.parquet" for k in (0, 1)]
    assert (plan.builder, plan.stated_rows) == ("parquet", 3)
    assert not (plan.lines or plan.streamable)
    assert plan.download_bytes == sum(file.size for file in plan.files) > 0
    assert hub.journal.bytes_sent("/cdn/") == 0


@pytest.mark.parametrize(
    ("name", "lines", "streamable"),
    [("a.jsonl", True, True), ("a.jsonl.gz", True, False), ("a.json", False, False)],
)
def test_plain_json_lines_can_be_streamed(
    hub: Hub, name: str, lines: bool, streamable: bool
) -> None:
    hub.repo("dataset", "acme/chat").commit({f"data/train-{name}": b'{"text": "a"}\n'})
    plan = plan_download(spec(), FetchOptions(retries=QUICK))
    assert (plan.lines, plan.streamable) == (lines, streamable)


def test_a_gated_data_set_is_refused_before_anything_is_planned(hub: Hub) -> None:
    publish(hub, texts("a"), gated=True)
    with pytest.raises(Gated, match="accept the terms"):
        plan_download(spec(), FetchOptions(retries=QUICK))


@pytest.mark.parametrize("limit", [0, -2])
def test_a_limit_is_a_number_of_rows_or_all_of_them(limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit is {limit}; expected a number of rows > 0"):
        FetchOptions(limit)
