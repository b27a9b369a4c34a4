"""Which files of a folder are read: the Parquet files of its training split, each once.

A card (``README.md``) with ``data_files`` says which files those are; without one their names do.
Every other file is named with the reason why it is not read, apart from hidden files and from those
that only describe the others.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from pipeline_lib.errors import SourceError
from pipeline_lib.hub.card_text import card_of
from pipeline_lib.hub.cards import card_files
from pipeline_lib.sources.split_names import outside_split

SPLIT = "train"
_ABOUT = re.compile(
    r"README.*|LICEN[CS]E.*|_SUCCESS|manifest\.json|dataset_infos?\.json|state\.json|Thumbs\.db"
    r"|desktop\.ini",
    re.IGNORECASE,
)
"""Files that describe the others."""
_SHOWN = 5
_LOG = logging.getLogger(__name__)


def files_to_read(root: Path, config: str | None = None) -> list[str]:
    """Relative names of the Parquet files to read, sorted; the log names all that are left out.

    Links are followed. ``SourceError`` if there are none, if none is of the training split, if one
    file has two names, or if a folder can not be listed; ``NoSuchFiles`` for a card that does not
    say which files are meant. ``ValueError`` for a ``config`` without a card.
    """
    there = sorted(path.relative_to(root).as_posix() for path in _visible(root, ()))
    parquet = [name for name in there if name.lower().endswith(".parquet")]
    unread = {name: _why_not(root / name) for name in there if name not in set(parquet)}
    if not parquet:
        raise SourceError(
            f"{root} holds no *.parquet file{_beside(unread)}; give a folder of Parquet files or a "
            "Hub dataset"
        )
    out = _outside(root, parquet, config)
    names = [name for name in parquet if name not in out]
    if not names:
        raise SourceError(
            f"{root} has no file of the split {SPLIT!r}: {_told(out)}. Give the folder that holds "
            "the files to be read, or rename them"
        )
    _refuse_doubles(root, names)
    _refuse_snapshots(root, names)
    if told := _told(unread | out):
        _LOG.warning("%s: not read: %s", root, told)
    return names


def _visible(folder: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    real = folder.resolve()
    if real in above:  # a link that leads in a circle gives no new file
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise SourceError(
            f"{folder} can not be listed ({error}); mend it or move it away"
        ) from error
    for path in entries:
        if path.name.startswith("."):
            if path.name.lower().endswith(".parquet"):
                _LOG.warning("%s is hidden and not read", path)
        elif path.is_dir():
            yield from _visible(path, (*above, real))
        else:
            yield path


def _why_not(path: Path) -> str:
    if _ABOUT.fullmatch(path.name):
        return ""
    try:
        with path.open("rb") as file:
            is_parquet = file.read(4) == b"PAR1"
    except OSError:
        return "can not be opened"
    return "Parquet, but not named *.parquet" if is_parquet else "not Parquet"


def _outside(root: Path, parquet: list[str], config: str | None) -> dict[str, str]:
    """Name -> reason of each Parquet file that is not of the training split."""
    readme = root / "README.md"
    text = readme.read_text("utf-8-sig", "replace") if readme.is_file() else ""
    card = card_of(text, str(root), "mend its README.md or move that away")
    if not card.get("configs"):
        if config is not None:
            raise ValueError(
                f"config is {config!r}, but {root} has no README.md that lists configs; leave "
                "--config out"
            )
        return outside_split(parquet, SPLIT)
    names = card_files(card, parquet, config, SPLIT, str(root))
    return {name: f"README.md: not {SPLIT}" for name in parquet if name not in set(names)}


def _refuse_doubles(root: Path, names: Iterable[str]) -> None:
    seen: dict[tuple[int, int] | str, str] = {}
    for name in names:
        if not (root / name).exists():
            continue  # a link that leads nowhere is named when its footer is read
        stat = (root / name).stat()
        key = (stat.st_dev, stat.st_ino) if stat.st_ino else str((root / name).resolve())
        if key in seen:
            raise SourceError(
                f"{root}: {seen[key]} and {name} are two names of one file, which would be read "
                "twice; remove one of them, or give a folder that holds only one (of a Hub cache: "
                "one folder below snapshots/)"
            )
        seen[key] = name


def _refuse_snapshots(root: Path, names: Iterable[str]) -> None:
    """A Hub cache may hold two revisions of one data set, with few or no files in common."""
    found: dict[PurePosixPath, dict[str, str]] = {}
    for name in names:
        for folder in PurePosixPath(name).parents:
            cache = folder.parent.parent
            if folder.parent.name == "snapshots" and (root / cache / "blobs").is_dir():
                found.setdefault(cache, {}).setdefault(folder.name, name)
    for revisions in found.values():
        if len(revisions) > 1:
            one, other, *_ = revisions.values()
            raise SourceError(
                f"{root}: {one} and {other} are of {len(revisions)} revisions of one data set in a "
                "Hub cache; give the folder of one revision below snapshots/"
            )


def _beside(unread: Mapping[str, str]) -> str:
    return f" ({_told(unread)})" if any(unread.values()) else ""


def _told(unread: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for name, reason in sorted(unread.items()):
        by_reason.setdefault(reason, []).append(name)
    by_reason.pop("", None)
    return "; ".join(f"{_listed(names)} ({reason})" for reason, names in by_reason.items())


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
