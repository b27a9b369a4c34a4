"""The JSON documents of the protocol, as pure functions of what is stored."""

import hashlib
from typing import Any

from loopback_hub.repository import Blob, Repo, with_folders

Json = dict[str, Any]

DATE = "2026-01-01T00:00:00.000Z"
NO_AGENTS: Json = {"standardEnvVars": [], "harnesses": {}}


def info(repo: Repo, sha: str, *, blobs: bool) -> Json:
    """What ``dataset_info`` and ``model_info`` read; sizes and hashes only with ``blobs``."""
    tree = repo.commits[sha].tree
    return {
        "_id": hashlib.sha1(repo.id.encode()).hexdigest()[:24],
        "id": repo.id,
        "author": repo.id.rpartition("/")[0] or None,
        "sha": sha,
        "private": repo.private,
        "gated": "auto" if repo.gated else False,
        "disabled": False,
        "lastModified": DATE,
        "createdAt": DATE,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "cardData": repo.card_data(sha),
        "siblings": [_sibling(path, blob, blobs=blobs) for path, blob in tree.items()],
        "usedStorage": sum(blob.size for blob in tree.values()),
    } | ({"modelId": repo.id} if repo.kind == "model" else {})


def _sibling(path: str, blob: Blob, *, blobs: bool) -> Json:
    sibling: Json = {"rfilename": path}
    if blobs:
        sibling |= {"size": blob.size, "blobId": blob.git_id}
        if blob.lfs:
            sibling["lfs"] = _lfs(blob, "sha256")
    return sibling


def _lfs(blob: Blob, name_of_hash: str) -> Json:
    return {name_of_hash: blob.sha256, "size": blob.size, "pointerSize": len(blob.pointer)}


def refs(repo: Repo) -> Json:
    kinds = {"branches": "refs/heads/", "converts": "refs/convert/", "tags": "refs/tags/"}
    return {
        title: [
            {"name": ref.removeprefix(prefix), "ref": ref, "targetCommit": sha}
            for ref, sha in repo.refs.items()
            if ref.startswith(prefix)
        ]
        for title, prefix in kinds.items()
    }


def commits(repo: Repo, sha: str) -> list[Json]:
    return [
        {"id": commit.sha, "title": commit.title, "message": "", "date": DATE, "authors": []}
        for commit in repo.history(sha)
    ]


def folder(
    repo: Repo, sha: str, inside: str, *, recursive: bool, expand: bool
) -> list[Json] | None:
    """The entries of a folder (``""``: of the repository); None if there is no such folder."""
    paths = with_folders(repo.commits[sha].tree)
    if inside and (inside not in paths or paths[inside] is not None):
        return None
    prefix = f"{inside}/" if inside else ""
    return [
        _entry(path, blob, sha, expand=expand)
        for path, blob in paths.items()
        if path.startswith(prefix) and (recursive or "/" not in path[len(prefix) :])
    ]


def entries(repo: Repo, sha: str, wanted: list[str], *, expand: bool) -> list[Json]:
    """Those of the wanted paths that exist."""
    paths = with_folders(repo.commits[sha].tree)
    return [_entry(path, paths[path], sha, expand=expand) for path in wanted if path in paths]


def _entry(path: str, blob: Blob | None, sha: str, *, expand: bool) -> Json:
    if blob is None:
        oid = hashlib.sha1(path.encode()).hexdigest()
        entry: Json = {"type": "directory", "oid": oid, "size": 0, "path": path}
    else:
        entry = {"type": "file", "oid": blob.git_id, "size": blob.size, "path": path}
        if blob.lfs:
            entry["lfs"] = _lfs(blob, "oid")
    if expand:
        entry["lastCommit"] = {"id": sha, "title": "update", "date": DATE}
    return entry
