"""A small data set on the loopback hub, and our side of the Hub asked about it."""

from pathlib import Path

from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

from pipeline_lib.hub import client
from pipeline_lib.hub.retry import RetryPolicy

QUICK = RetryPolicy(tries=3, first_pause=0.01, longest_pause=2.0)
TOKEN = "hf_secretsecret"
FIRST = "default/train-00000-of-00002.parquet"
ROWS = [{"text": f"Row {n}."} for n in range(50)]


def publish(hub: Hub, **more: object) -> None:
    """Put ``acme/chat`` on the hub: one split in two files."""
    publish_dataset(hub, "acme/chat", {"default": {"train": [ROWS, ROWS]}}, **more)  # type: ignore[arg-type]


def listing(repo: str = "acme/chat", revision: str | None = None) -> client.RepoListing:
    """The files of a data set at a revision."""
    return client.resolve_revision(repo, revision, retries=QUICK)


def fetch(repo: str = "acme/chat", path: str = FIRST) -> Path:
    """One verified file of a data set."""
    return client.fetch_file(listing(repo), path, retries=QUICK)
