"""What a hub stores: repositories of commits, each a tree of blobs, under named refs."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from typing import Any, Literal, NamedTuple

import yaml

Kind = Literal["dataset", "model"]

LFS_PATTERNS = ("*.parquet", "*.arrow", "*.bin", "*.gz", "*.npy", "*.safetensors", "*.zst")
SHORT_SHA = 7  # the fewest hex digits that are taken for an abbreviated commit id


def _git_blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass(frozen=True)
class Blob:
    """The bytes of one file; ``lfs`` says that git holds a pointer to them instead."""

    data: bytes = field(repr=False)
    lfs: bool

    @property
    def size(self) -> int:
        return len(self.data)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def pointer(self) -> bytes:
        """The text that git stores in place of a large file."""
        version = "version https://git-lfs.github.com/spec/v1"
        return f"{version}\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @cached_property
    def git_id(self) -> str:
        """The git blob id: of the pointer, not of the content, where the file is in LFS."""
        return _git_blob_id(self.pointer if self.lfs else self.data)

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.git_id


Tree = dict[str, Blob]


class Commit(NamedTuple):
    sha: str
    title: str
    tree: Tree


@dataclass
class Repo:
    """One repository. Commit ids depend on content and history alone, so they repeat between runs.

    ``readers`` are the tokens that may read a gated or private repository.
    """

    kind: Kind
    id: str
    gated: bool = False
    private: bool = False
    readers: frozenset[str] = frozenset()
    lfs_patterns: tuple[str, ...] = LFS_PATTERNS
    commits: dict[str, Commit] = field(default_factory=dict, repr=False)
    refs: dict[str, str] = field(default_factory=dict)

    def commit(self, files: Mapping[str, bytes], ref: str = "main", title: str = "update") -> str:
        """Make ``files`` the whole content of ``ref`` and return the new commit id."""
        name = _full_ref(ref)
        tree = {path: self._blob(path, files[path]) for path in sorted(files)}
        digest = hashlib.sha1(f"{self.kind} {self.id} {self.refs.get(name)} {title}\n".encode())
        for path, blob in tree.items():
            digest.update(f"{path}\0{blob.git_id}\n".encode())
        commit = Commit(digest.hexdigest(), title, tree)
        self.commits[commit.sha] = commit
        self.refs[name] = commit.sha
        return commit.sha

    def edit(self, changes: Mapping[str, bytes | None], ref: str = "main") -> str:
        """Commit on top of ``ref``: bytes add or replace a file, None removes it."""
        files = {path: blob.data for path, blob in self.tree(ref).items()}
        for path, data in changes.items():
            files.pop(path, None)
            if data is not None:
                files[path] = data
        return self.commit(files, ref)

    def tag(self, name: str, revision: str = "main") -> str:
        """Point the tag ``name`` at a revision and return its commit id."""
        self.refs[f"refs/tags/{name}"] = sha = self._existing(revision)
        return sha

    @property
    def sha(self) -> str:
        """The commit id of ``main``."""
        return self._existing("main")

    def tree(self, revision: str = "main") -> Tree:
        return self.commits[self._existing(revision)].tree

    def file(self, path: str, revision: str = "main") -> bytes:
        return self.tree(revision)[path].data

    def resolve(self, revision: str) -> str | None:
        """The commit id that a branch, tag, full ref, or full or abbreviated id stands for."""
        for name in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if name in self.refs:
                return self.refs[name]
        if not re.fullmatch(rf"[0-9a-f]{{{SHORT_SHA},40}}", revision):
            return None
        found = [sha for sha in self.commits if sha.startswith(revision)]
        return found[0] if len(found) == 1 else None

    def history(self, sha: str) -> list[Commit]:
        """Commits up to ``sha``, newest first."""
        order = list(self.commits.values())
        upto = next(place for place, commit in enumerate(order) if commit.sha == sha)
        return order[upto::-1]

    def card_data(self, sha: str) -> dict[str, Any]:
        """The YAML front matter of the README at a commit; empty without one."""
        readme = self.commits[sha].tree.get("README.md")
        matter = re.match(rb"---\s*\n(.*?)\n---", readme.data, re.DOTALL) if readme else None
        loaded = yaml.safe_load(matter.group(1)) if matter else None
        return loaded if isinstance(loaded, dict) else {}

    def _blob(self, path: str, data: bytes) -> Blob:
        name = path.rpartition("/")[2]
        return Blob(data, any(fnmatch(name, pattern) for pattern in self.lfs_patterns))

    def _existing(self, revision: str) -> str:
        sha = self.resolve(revision)
        if sha is None:
            raise KeyError(f"{self.id} has no revision {revision!r}; it has {sorted(self.refs)}")
        return sha


def _full_ref(ref: str) -> str:
    return ref if ref.startswith("refs/") else f"refs/heads/{ref}"


def with_folders(tree: Tree) -> dict[str, Blob | None]:
    """Every path of a tree in order, its folders (None) included."""
    paths: dict[str, Blob | None] = dict(tree)
    for path in tree:
        paths.update(dict.fromkeys(_parents(path)))
    return dict(sorted(paths.items()))


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))
