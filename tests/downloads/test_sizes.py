"""Sizes of sources, asked of the Hub without fetching: each kind of entry, limits and caps."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fit_world import QUICK
from fit_world import source as chat_spec
from loopback_hub import Hub
from loopback_hub.publish import CONVERTED, parquet_bytes, publish_dataset

from pipeline_lib.downloads import fetch, sizes
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import GATED_NOTE, Size
from pipeline_lib.machine import folder_bytes

TABLES = [pa.table({"text": [os.urandom(500).hex() for _ in range(400)]}) for _ in range(4)]
TABLE = TABLES[0]


def spec(**more: Any) -> DatasetSpec:
    return chat_spec(**({"columns": {"text": pa.string()}} | more))


def look(folder: Path, limit: int = -1, kind: DatasetSpec | None = None) -> Size:
    """The size of one source on disk or, where it is not, on the Hub."""
    kind, options = kind or spec(), FetchOptions(limit, retries=QUICK)
    there = sizes.size_on_disk("chat", folder / "chat", limit, kind.columns)
    return there or sizes.size_on_hub("chat", kind, options)


def publish(hub: Hub, files: int = 2, **more: Any) -> int:
    publish_dataset(hub, "acme/chat", {"default": {"train": TABLES[:files]}}, **more)
    return sum(len(parquet_bytes(table)) for table in TABLES[:files])


def test_a_card_that_states_its_sizes_is_believed_and_one_footer_is_read(
    hub: Hub, tmp_path: Path
) -> None:
    size = publish(hub)
    chat = look(tmp_path)
    assert (chat.rows, chat.network, chat.saved) == (800, size, 2 * TABLE.nbytes)
    assert chat.note == "from the card"
    assert hub.journal.bytes_sent("/cdn/") < 100_000


def test_without_stated_sizes_the_footers_are_read_by_range_requests(
    hub: Hub, tmp_path: Path
) -> None:
    size = publish(hub, sizes=False)
    chat = look(tmp_path)
    assert (chat.rows, chat.network) == (800, size)
    assert chat.saved == pytest.approx(2 * TABLE.nbytes, rel=0.1)
    assert 0 < hub.journal.bytes_sent("/cdn/") < size / 2


def test_a_parquet_pointer_is_sized_on_its_branch(hub: Hub, tmp_path: Path) -> None:
    size = publish(hub, converted=True)
    chat = look(tmp_path, kind=spec(config="default", parquet=CONVERTED))
    assert (chat.rows, chat.network, chat.note) == (800, size, "from parquet footers")


@pytest.mark.parametrize(
    ("name", "data", "extra"),
    [("train.jsonl", b'{"text": "a"}\n' * 100, 0), ("train.csv", b"text\n" + b"a\n" * 100, 205)],
)
def test_other_formats_are_estimated_from_their_files(
    hub: Hub, tmp_path: Path, name: str, data: bytes, extra: int
) -> None:
    hub.repo("dataset", "acme/chat").commit({f"data/{name}": data})
    chat = look(tmp_path)
    assert chat.network == chat.saved == len(data)
    assert chat.extra == extra  # a further copy lies in the cache of datasets, but not of lines
    assert chat.note == "estimated from file sizes"


def test_a_gated_source_without_a_token_is_flagged_and_sized_by_its_public_card(
    hub: Hub, tmp_path: Path
) -> None:
    size = publish(hub, gated=True)
    chat = look(tmp_path)
    assert chat.note == GATED_NOTE == "(gated -- needs HF_TOKEN)"
    assert (chat.rows, chat.network, chat.saved) == (800, size, 2 * TABLE.nbytes)


def test_a_gated_source_that_states_nothing_is_unknown(hub: Hub, tmp_path: Path) -> None:
    publish(hub, gated=True, sizes=False)
    chat = look(tmp_path)
    assert chat.note == GATED_NOTE and not chat.known


def test_what_can_not_be_asked_is_unknown_and_says_why(hub: Hub, tmp_path: Path) -> None:
    gone = look(tmp_path, kind=spec(path="acme/gone"))
    assert not gone.known and "not found" in gone.note


def test_a_format_of_unknown_density_is_unknown(hub: Hub, tmp_path: Path) -> None:
    repo = hub.repo("dataset", "acme/chat")
    repo.commit({"data/train.txt": b"a line of text\n" * 100})
    chat = look(tmp_path)
    assert not chat.known and chat.note == "format of unknown density"


def test_what_is_on_disk_is_measured_and_costs_nothing_more(hub: Hub, tmp_path: Path) -> None:
    publish(hub)
    fetch.fetch("chat", spec(), tmp_path, FetchOptions(retries=QUICK))
    hub.journal.clear()
    chat = look(tmp_path)
    assert (chat.rows, chat.network, chat.present) == (800, 0, True)
    assert chat.saved == pytest.approx(folder_bytes(tmp_path / "chat"), rel=0.05)
    assert chat.text == pytest.approx(2 * TABLE.nbytes, rel=0.05)
    assert len(hub.journal) == 0


def test_a_damaged_copy_is_reported_not_counted(hub: Hub, tmp_path: Path) -> None:
    publish(hub)
    fetch.fetch("chat", spec(), tmp_path, FetchOptions(retries=QUICK))
    (tmp_path / "chat" / "state.json").unlink()
    chat = look(tmp_path)
    assert not chat.known and "damaged" in chat.note


@pytest.mark.parametrize("streaming", [True, False])
def test_a_limit_scales_what_is_fetched_and_saved(
    hub: Hub, tmp_path: Path, streaming: bool
) -> None:
    size = publish(hub, files=4)
    chat = look(tmp_path, limit=500, kind=spec(streaming=streaming))
    assert chat.rows == 500 and chat.network == pytest.approx(size / 2, rel=0.02)
    assert chat.saved == pytest.approx(4 * TABLE.nbytes * 500 / 1600, rel=0.01)
    hub.journal.clear()
    done = fetch.fetch(
        "chat", spec(streaming=streaming), tmp_path, FetchOptions(500, retries=QUICK)
    )
    assert done.size == pytest.approx(chat.saved, rel=0.1)
    assert hub.journal.bytes_sent("/cdn/") == chat.network


def test_a_byte_cap_bounds_the_saved_copy(hub: Hub, tmp_path: Path) -> None:
    publish(hub, files=4)
    chat = look(tmp_path, kind=spec(max_bytes=TABLE.nbytes))
    assert chat.saved == TABLE.nbytes


def test_files_that_the_hub_cache_holds_are_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    publish(hub, files=4)
    fetch.fetch("chat", spec(), tmp_path / "first", FetchOptions(400, retries=QUICK))
    left = sum(len(parquet_bytes(table)) for table in TABLES) * 3 / 4
    assert look(tmp_path).network == pytest.approx(left, rel=0.01)
    fetch.fetch("chat", spec(), tmp_path / "second", FetchOptions(retries=QUICK))
    assert look(tmp_path).network == 0


@pytest.mark.parametrize("stated", [True, False])
def test_the_columns_that_a_normalizer_reads_are_told_by_footers(
    hub: Hub, tmp_path: Path, stated: bool
) -> None:
    turn = {"content": "x" * 300, "role": "user", "toxic": "y" * 600}
    rows = [{"messages": [turn] * 2, "id": f"{n:0100}"} for n in range(300)]
    publish_dataset(hub, "acme/chat", {"default": {"train": [rows]}}, sizes=stated)
    kind = chat_spec()
    before = look(tmp_path, kind=kind)
    fetch.fetch("chat", kind, tmp_path, FetchOptions(retries=QUICK))
    after = look(tmp_path, kind=kind)
    assert before.text is not None and before.saved is not None
    assert 0 < before.text < before.saved
    assert after.text == pytest.approx(300 * 2 * (300 + 4 + 4 + 4), rel=0.1)


def test_rows_that_are_streamed_from_other_formats_stay_in_no_cache(
    hub: Hub, tmp_path: Path
) -> None:
    lines = b'{"text": "%s"}\n' % (b"a" * 3_000)
    hub.repo("dataset", "acme/chat").commit({"data/train.jsonl": lines * 1_000})
    chat = look(tmp_path, limit=100, kind=spec(streaming=True))
    assert chat.streamed and chat.extra == 0
    assert chat.network == chat.saved == pytest.approx(100 * len(lines), rel=0.1)
    whole = look(tmp_path, kind=spec(streaming=True))
    assert not whole.streamed and whole.network == 1_000 * len(lines)


def test_a_larger_limit_never_costs_less(hub: Hub, tmp_path: Path) -> None:
    publish(hub, files=4)
    found = [look(tmp_path, limit) for limit in (1, 100, 400, 401, 1_599, 1_600, 9_999)]
    for name in ("rows", "network", "saved", "text"):
        costs = [getattr(size, name) for size in found]
        assert costs == sorted(costs), name
    assert found[-1] == look(tmp_path)


def test_a_byte_cap_is_sized_by_the_text_that_it_counts(hub: Hub, tmp_path: Path) -> None:
    wide = [table.append_column("url", table.column("text")) for table in TABLES[:2]]
    publish_dataset(hub, "acme/chat", {"default": {"train": wide}})
    text = sum(len(value) for value in TABLE.column("text").to_pylist())
    kind = spec(max_bytes=text)
    chat = look(tmp_path, kind=kind)
    done = fetch.fetch("chat", kind, tmp_path, FetchOptions(retries=QUICK))
    assert done.rows == 400 and chat.rows == pytest.approx(400, rel=0.02)
    assert done.size == pytest.approx(chat.saved, rel=0.1)
