"""The hub: repositories, tokens, faults and journal, served on a loopback port."""

import threading
from typing import Any

from loopback_hub.faults import Fault, Faults
from loopback_hub.journal import Journal
from loopback_hub.repository import Blob, Kind, Repo
from loopback_hub.server import Server


class Hub:
    """One server for many tests; ``reset`` gives each an empty hub at the same address.

    ``url`` is what HF_ENDPOINT must be. ``tokens`` are valid but read nothing closed;
    the readers of a repository are valid everywhere and read that one.
    """

    def __init__(self, port: int = 0) -> None:
        self.journal = Journal()
        self._faults = Faults()
        self.reset()
        self._server = Server(self, port)
        self.url = f"http://127.0.0.1:{self._server.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="hub", daemon=True
        )
        self._thread.start()

    def reset(self) -> None:
        """Forget every repository, token, fault and request."""
        self.repos: dict[tuple[Kind, str], Repo] = {}
        self.tokens: set[str] = set()
        self.page_size = 1000  # entries on a page of a file listing
        self.redirects = True  # large files come from another host name, as on the real hub
        self._faults.clear()
        self.journal.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def repo(
        self,
        kind: Kind,
        repo_id: str,
        *,
        gated: bool = False,
        private: bool = False,
        readers: tuple[str, ...] = (),
    ) -> Repo:
        """Create a repository without commits."""
        if (kind, repo_id) in self.repos:
            raise ValueError(f"{kind} {repo_id} exists already; commit to the Repo you have")
        repo = Repo(kind, repo_id, gated=gated, private=private, readers=frozenset(readers))
        self.repos[kind, repo_id] = repo
        return repo

    def fault(self, path: str = "", **effect: Any) -> Fault:
        """Order a ``Fault``; its ``times`` tells afterwards how many are left."""
        fault = Fault(path, **effect)
        self._faults.add(fault)
        return fault

    def take_fault(self, method: str, path: str) -> Fault | None:
        return self._faults.take(method, path)

    def knows(self, token: str) -> bool:
        return token in self.tokens or any(token in r.readers for r in list(self.repos.values()))

    def large_blob(self, sha256: str) -> Blob | None:
        """The LFS file with these content bytes, in whatever repository."""
        blobs = (
            blob
            for repo in list(self.repos.values())
            for commit in list(repo.commits.values())
            for blob in commit.tree.values()
        )
        return next((blob for blob in blobs if blob.lfs and blob.sha256 == sha256), None)
