"""The folder in which one source's checked conversations grow, part by part.

``meta.json`` is the one commit point: parts, rows done, counts and running digests. A part is
written and fsynced under a name no commit has used before the record names it, so an
interrupted run goes on behind the last part. Where a part ends depends on the rows alone.
"""

import logging
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline_lib import chat, digest, selection
from pipeline_lib.caches.cachekey import META, Key, cache_folder, load_meta, remedy
from pipeline_lib.caches.cachesite import CacheSite
from pipeline_lib.chat import Pair, Reject, Result, Turns
from pipeline_lib.chats.sourcerows import READ_ROWS, PickedRows
from pipeline_lib.chats.turnparts import conversation_bytes, encode_part
from pipeline_lib.chats.turnstore import PartRecord, StoredSource
from pipeline_lib.durable import atomic, folders
from pipeline_lib.errors import DamagedFile, SourceError
from pipeline_lib.lock import FolderLock

Normalizer = Callable[[dict[str, Any]], Result]
Side = Callable[[Turns | Pair], selection.Split]

PART_ROWS, PART_BYTES = 20_000, 16 << 20
WARN_SHARE = 0.05
_REASONS = 200
_SPLITS: tuple[selection.Split, ...] = ("train", "val")
_log = logging.getLogger(__name__)


@dataclass
class SourceReport:
    """What became of the rows of one source; ``notes`` counts changes to rows that were kept.

    ``messages`` says what became of the single messages of a tree source.
    """

    rows: int = 0
    train: int = 0
    val: int = 0
    rejects: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    first_traceback: str = ""

    @property
    def rejected(self) -> int:
        """Rows that were rejected, for whatever reason."""
        return sum(self.rejects.values())


class SourceStore:
    """One source in the cache: fill what is missing, then hand out what is stored."""

    def __init__(self, site: CacheSite, name: str, key: Key, unresolved: tuple[str, ...]) -> None:
        self.name, self._site = name, site
        self.folder = cache_folder(site.root, f"normalized-{name}", key)
        self._key, self._unresolved = key, unresolved
        self._load()

    def _load(self) -> None:
        empty = {side: digest.Chain().state for side in _SPLITS}
        fresh: dict[str, Any] = {
            "done": 0,
            "complete": False,
            "parts": [],
            "report": {},
            "digest": empty,
        }
        self._meta: dict[str, Any] = load_meta(self.folder, self._key) or fresh
        self.report = SourceReport(**self._meta["report"])
        self._rejects, self._notes = Counter(self.report.rejects), Counter(self.report.notes)
        self._chains = {side: digest.Chain(self._meta["digest"][side]) for side in _SPLITS}
        self._waiting: dict[str, list[Turns | Pair]] = {side: [] for side in _SPLITS}
        self._bytes = 0

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do; never for code that can not be pinned down."""
        return bool(self._meta["complete"]) and not self._unresolved

    def fill(self, rows: PickedRows, normalizer: Normalizer, side: Side) -> None:
        """Normalise the rows that are not done yet."""
        folders.make_folder(self.folder)
        with FolderLock(self.folder / "lock"):
            if self._unresolved:
                self._start_over()
            self._load()  # another process may have gone on since
            if self._meta["done"]:
                _log.info("%s: resuming at row %s", self.name, f"{self._meta['done']:,}")
            self.report.messages = rows.messages
            self._run(rows, normalizer, side)

    def _start_over(self) -> None:
        _log.warning(
            "%s: what its normalizer depends on can not be pinned down (%s); normalising again",
            self.name,
            ", ".join(self._unresolved),
        )
        atomic.remove(self.folder / META)
        folders.sync_folder(self.folder)
        for path in self.folder.glob("*.arrow"):
            atomic.remove(path)  # a reader that still maps it keeps its bytes

    def _run(self, rows: PickedRows, normalizer: Normalizer, side: Side) -> None:
        for start in range(self._meta["done"], len(rows), READ_ROWS):
            for row in rows.block(start):
                self._take(self._judged(normalizer, row), side)
            done = min(start + READ_ROWS, len(rows))
            if max(map(len, self._waiting.values())) >= PART_ROWS or self._bytes >= PART_BYTES:
                self._commit(done, complete=False)
            if self._site.on_progress:
                self._site.on_progress(self.name, done, len(rows))
        if not self._meta["complete"]:
            self._commit(len(rows), complete=True)

    def _judged(self, normalizer: Normalizer, row: dict[str, Any]) -> Turns | Pair | Reject:
        try:
            return chat.check(normalizer(row))
        except Reject as reject:
            return reject
        except Exception as error:  # the user's code: one bad row must not stop a million others
            if not self.report.first_traceback:
                self.report.first_traceback = traceback.format_exc()[-4_000:]
            return Reject(f"raised {type(error).__name__}")

    def _take(self, result: Turns | Pair | Reject, side: Side) -> None:
        self.report.rows += 1
        if isinstance(result, Reject):
            known = result.reason in self._rejects or len(self._rejects) < _REASONS
            self._rejects[result.reason if known else "other reasons"] += 1
            return
        self._notes.update(set(result.notes))
        split, item = side(result), conversation_bytes(result)
        self._chains[split].add(item)
        self._waiting[split].append(result)
        self._bytes += len(item)

    def _commit(self, done: int, *, complete: bool) -> None:
        number = len(self._meta["parts"])
        part = {
            split: self._write(f"{split}-{number:05d}.arrow", conversations)
            for split, conversations in self._waiting.items()
            if conversations
        }
        folders.sync_folder(self.folder)
        report = self.report
        report.rejects, report.notes = dict(self._rejects), dict(self._notes)
        report.train += len(self._waiting["train"])
        report.val += len(self._waiting["val"])
        meta = {
            "key": self._key,
            "done": done,
            "complete": complete,
            "parts": self._meta["parts"] + [part] * bool(part),
            "report": asdict(report),
            "digest": {split: chain.state for split, chain in self._chains.items()},
        }
        atomic.save_json(self.folder / META, meta)
        self._meta, self._bytes = meta, 0
        self._waiting = {split: [] for split in _SPLITS}

    def _write(self, name: str, conversations: list[Turns | Pair]) -> dict[str, Any]:
        written = atomic.write_new(self.folder / name, [memoryview(encode_part(conversations))])
        return {"file": name, "rows": len(conversations), **written._asdict()}

    def judge(self) -> None:
        """Warn when many rows were rejected; ``SourceError`` when all were."""
        report = self.report
        worst = ", ".join(f"{reason}: {count:,}" for reason, count in self._rejects.most_common(3))
        text = f"{self.name}: {report.rejected:,} of {report.rows:,} rows rejected ({worst})"
        if report.first_traceback:
            text += f"; the first traceback:\n{report.first_traceback}"
        if report.rows and report.rejected == report.rows:
            raise SourceError(f"{text}; correct its normalizer, or leave the source out")
        if report.rejected > WARN_SHARE * report.rows:
            _log.warning("%s", text)

    def stored(self, split: selection.Split) -> StoredSource:
        """What later stages read: the parts of one split and the digest of their content."""
        records = [part[split] for part in self._meta["parts"] if split in part]
        for record in records if self._site.full else ():
            path = self.folder / record["file"]
            if path.is_file() and digest.sha256_file(path) != record["sha256"]:
                raise DamagedFile(f"{path} is not what was committed; {remedy(self.folder)}")
        parts = tuple(PartRecord(self.folder / r["file"], r["rows"], r["size"]) for r in records)
        return StoredSource(self.name, parts, self._chains[split].state)
