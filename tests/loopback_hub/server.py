"""The routes of the hub: repositories, access, listings, files and their redirects."""

import json
import re
import sys
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from loopback_hub import answers
from loopback_hub.repository import Blob, Kind, Repo
from loopback_hub.wire import Exchange, Refusal, byte_span

if TYPE_CHECKING:
    from loopback_hub.hub import Hub

API_ROUTE = re.compile(
    r"/api/(?P<kind>dataset|model)s/(?P<id>.+?)"
    r"(?:/(?P<verb>revision|tree|paths-info|refs|commits|auth-check)"
    r"(?:/(?P<revision>[^/]+)(?:/(?P<inside>.*))?)?)?"
)
FILE_ROUTE = re.compile(
    r"/(?P<kind>datasets/)?(?P<id>.+?)/(?:resolve|raw)/(?P<rev>[^/]+)/(?P<path>.+)"
)


class Server(ThreadingHTTPServer):
    """Listens on loopback, one thread a connection."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, hub: "Hub", port: int) -> None:
        super().__init__(("127.0.0.1", port), _Conversation)
        self.hub = hub
        self.port: int = self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent when a connection ends (clients and faults do that), not about mistakes."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Conversation(Exchange):
    server: Server

    def setup(self) -> None:
        super().setup()
        self.hub = self.server.hub

    def route(self) -> None:
        url = urlsplit(self.path)  # still encoded: a revision may hold "%2F"
        self._query = parse_qs(url.query)
        self._check_token()
        if url.path.startswith("/cdn/"):
            return self._send_large(url.path.rpartition("/")[2])
        if url.path == "/api/whoami-v2":
            return self._send_identity()
        if match := API_ROUTE.fullmatch(url.path):
            return self._route_api(match)
        if match := FILE_ROUTE.fullmatch(url.path):
            return self._route_file(match)
        raise Refusal(404, "", f"no such page: {url.path}")

    def _route_api(self, match: re.Match[str]) -> None:
        kind: Kind = "dataset" if match["kind"] == "dataset" else "model"
        repo = self._find_repo(kind, unquote(match["id"]))
        if match["verb"] == "refs":
            return self.answer_json(answers.refs(repo))
        if match["verb"] == "auth-check":
            self._check_gate(repo)
            return self.answer_json({})
        sha = self._find_commit(repo, unquote(match["revision"] or "main"))
        if match["verb"] == "tree":
            return self._send_tree(repo, sha, unquote(match["inside"] or "").strip("/"))
        if match["verb"] == "paths-info":
            return self._send_paths_info(repo, sha)
        if match["verb"] == "commits":
            return self.answer_json(answers.commits(repo, sha))
        self.answer_json(answers.info(repo, sha, blobs=self._flag("blobs")))

    def _route_file(self, match: re.Match[str]) -> None:
        repo = self._find_repo("dataset" if match["kind"] else "model", unquote(match["id"]))
        self._check_gate(repo)
        sha = self._find_commit(repo, unquote(match["rev"]))
        path = unquote(match["path"])
        blob = repo.commits[sha].tree.get(path)
        if blob is None:  # the commit id lets a client remember the absence
            raise Refusal(404, "EntryNotFound", f"{path} does not exist", X_Repo_Commit=sha)
        self._send_file(sha, blob)

    def _flag(self, name: str) -> bool:
        return self._query.get(name, ["false"])[0].lower() in ("true", "1")

    # ------------------------------------------------------------------ access

    @property
    def _token(self) -> str | None:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None

    def _check_token(self) -> None:
        if self._token is not None and not self.hub.knows(self._token):
            raise Refusal(401, "", "Invalid credentials in Authorization header")

    def _find_repo(self, kind: Kind, repo_id: str) -> Repo:
        repo = self.hub.repos.get((kind, repo_id))
        if repo is None or (repo.private and self._token not in repo.readers):
            # what does not exist and what may not be seen look alike: 401 to the anonymous
            raise Refusal(404 if self._token else 401, "RepoNotFound", "Repository not found")
        return repo

    def _check_gate(self, repo: Repo) -> None:
        """Refuse the files of a gated repository; its listing stays public."""
        if repo.gated and self._token not in repo.readers:
            status, advice = (403, "ask for access") if self._token else (401, "log in")
            message = f"Access to {repo.kind} {repo.id} is restricted; {advice} first"
            raise Refusal(status, "GatedRepo", message)

    def _find_commit(self, repo: Repo, revision: str) -> str:
        sha = repo.resolve(revision)
        if sha is None:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return sha

    # ------------------------------------------------------------------ answers

    def _send_identity(self) -> None:
        if self._token is None:
            raise Refusal(401, "", "Invalid username or password.")
        self.answer_json(
            {"type": "user", "name": "tester", "auth": {"accessToken": {"role": "read"}}}
        )

    def _send_tree(self, repo: Repo, sha: str, inside: str) -> None:
        recursive, expand = self._flag("recursive"), self._flag("expand")
        found = answers.folder(repo, sha, inside, recursive=recursive, expand=expand)
        if found is None:
            raise Refusal(404, "EntryNotFound", f"{inside} is not a folder", X_Repo_Commit=sha)
        start = int(self._query.get("cursor", ["0"])[0])
        stop = start + self.hub.page_size
        headers = {}
        if stop < len(found):
            flags = {"recursive": str(recursive).lower(), "expand": str(expand).lower()}
            query = urlencode(flags | {"cursor": stop})
            headers["Link"] = f'<{self.hub.url}{urlsplit(self.path).path}?{query}>; rel="next"'
        self.answer_json(found[start:stop], **headers)

    def _send_paths_info(self, repo: Repo, sha: str) -> None:
        is_json = "json" in (self.headers.get("Content-Type") or "")
        form = json.loads(self.body) if is_json else parse_qs(self.body.decode())
        expand = "true" in str(form.get("expand")).lower()
        self.answer_json(answers.entries(repo, sha, form.get("paths", []), expand=expand))

    def _send_file(self, sha: str, blob: Blob) -> None:
        headers = {"X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
        if blob.lfs:
            headers |= {"X-Linked-Size": str(blob.size), "X-Linked-Etag": f'"{blob.sha256}"'}
            if self.hub.redirects:
                # another host name, signed: the client must not send its token there, and the
                # code under test must not log the signature
                query = urlencode({"Expires": "2000000000", "Signature": blob.sha256[:8]})
                place = f"http://localhost:{self.server.port}/cdn/{blob.sha256}?{query}"
                return self.answer(302, b"", headers | {"Location": place})
        self._send_bytes(blob, headers)

    def _send_large(self, sha256: str) -> None:
        blob = self.hub.large_blob(sha256)
        if blob is None:
            raise Refusal(404, "", "no such object")
        self._send_bytes(blob, {"Accept-Ranges": "bytes"})

    def _send_bytes(self, blob: Blob, headers: dict[str, str]) -> None:
        headers |= {"ETag": f'"{blob.etag}"', "Content-Type": "application/octet-stream"}
        span = None
        if not (self.fault and self.fault.ignore_range):
            span = byte_span(self.headers.get("Range"), blob.size)
        if span is None:
            return self.answer(200, blob.data, headers)
        if not span:
            return self.answer(416, b"", headers | {"Content-Range": f"bytes */{blob.size}"})
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{blob.size}"
        self.answer(206, blob.data[span.start : span.stop], headers)
