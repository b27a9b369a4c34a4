"""The files of a config, found by ``datasets``: metadata alone, splits in order."""

import pytest
from hub_world import FIRST, QUICK, ROWS, listing, publish
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

from pipeline_lib.errors import SourceError
from pipeline_lib.hub.builders import split_files
from pipeline_lib.hub.refusals import Network


def test_files_features_and_figures_come_without_a_row(hub: Hub) -> None:
    publish(hub)
    found = split_files(listing(), None, ["train"], retries=QUICK)
    assert [file.path for file in found.files] == [FIRST, FIRST.replace("00000", "00001")]
    assert (found.builder, found.stated_rows) == ("parquet", 100)
    assert found.stated_bytes is not None and found.stated_bytes > 0
    assert hub.journal.bytes_sent("/cdn/") == 0


def test_files_of_several_splits_come_in_the_order_of_the_splits(hub: Hub) -> None:
    publish_dataset(hub, "acme/chat", {"default": {"test": [ROWS], "train": [ROWS]}})
    found = split_files(listing(), "default", ["train", "test"], retries=QUICK)
    names = [file.path.split("/")[1].split("-")[0] for file in found.files]
    assert names == ["train", "test"] and found.stated_rows == 100


def test_a_card_without_figures_leaves_them_unknown(hub: Hub) -> None:
    publish(hub, sizes=False)
    found = split_files(listing(), None, ["train"], retries=QUICK)
    assert (found.stated_rows, found.stated_bytes, len(found.files)) == (None, None, 2)


def test_an_absent_config_or_split_lists_those_that_are_there(hub: Hub) -> None:
    publish_dataset(hub, "acme/chat", {"en": {"train": [ROWS]}, "fr": {"train": [ROWS]}})
    with pytest.raises(SourceError, match="no split test; it has train"):
        split_files(listing(), "en", ["test"], retries=QUICK)
    with pytest.raises(SourceError, match=r"config 'de'.*en.*fr.*Correct it"):
        split_files(listing(), "de", ["train"], retries=QUICK)


def test_a_lasting_server_error_is_a_network_error(hub: Hub) -> None:
    publish(hub)
    known = listing()
    hub.fault("/api/datasets/", status=500, times=100)
    with pytest.raises(Network, match=r"dataset acme/chat: .*server error 500"):
        split_files(known, None, ["train"], retries=QUICK)
