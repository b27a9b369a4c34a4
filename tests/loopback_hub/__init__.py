"""A Hugging Face Hub on the loopback address, for the real clients to talk to.

    repository.py   what a hub stores: repositories, commits, refs, blobs
    faults.py       what can go wrong with a request, on order
    journal.py      what was asked and what was sent
    hub.py          the hub: repositories, tokens, faults and journal in one place
    answers.py      the JSON documents of the protocol (pure functions)
    server.py       the routes: access, listings, files, redirects
    wire.py         one request and its answer: journal, faults, ranges
    publish.py      parquet data sets and tokenizers from plain Python values

It models what the clients read of the Hub's protocol, not the Hub: uploads, search, Xet
transfers and rate limits are absent, and nothing here was compared with the real service.
"""

from loopback_hub.faults import Fault
from loopback_hub.hub import Hub
from loopback_hub.journal import Entry
from loopback_hub.repository import Blob, Kind, Repo

__all__ = ["Blob", "Entry", "Fault", "Hub", "Kind", "Repo"]
