"""Footers of Parquet files on the Hub: rows and sizes by range requests."""

import os

import pytest
from hub_world import QUICK, listing
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

from pipeline_lib.errors import DamagedFile
from pipeline_lib.hub.footers import remote_footer


def test_a_footer_is_read_without_the_data(hub: Hub) -> None:
    rows = [{"text": os.urandom(200).hex()} for _ in range(2000)]
    publish_dataset(hub, "acme/big", {"default": {"train": [rows]}})
    known = listing("acme/big")
    hub.journal.clear()
    footer = remote_footer(known, "default/train-00000-of-00001.parquet", retries=QUICK)
    assert footer.rows == 2000
    assert 0.9 < footer.arrow_bytes / (2000 * 404) < 1.1
    assert footer.leaves == {"text": footer.arrow_bytes}
    assert hub.journal.bytes_sent("/cdn/") < 200_000


def test_a_file_that_does_not_end_in_a_footer_is_named(hub: Hub) -> None:
    hub.repo("dataset", "acme/cut").commit({"a.parquet": b"PAR1" + bytes(100)})
    with pytest.raises(DamagedFile, match=r"a.parquet of acme/cut at .* pin another revision"):
        remote_footer(listing("acme/cut"), "a.parquet", retries=QUICK)
