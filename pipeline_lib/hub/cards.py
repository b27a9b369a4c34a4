"""The files of a split, found by the rules of a dataset card. Pure: only names are compared.

A card lists configs in its YAML header. Each config names its files by ``data_files``: one pattern,
a list of patterns, a list of ``{split, path}`` entries, or a mapping from split to patterns.
Patterns mean the same as for the Hub clients: ``*`` stays inside one folder, ``**`` is a whole path
component, ``[...]`` is a set of characters. Hidden and ``__special__`` names match only if the
pattern spells them out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from pipeline_lib.errors import HubError

_SHOWN = 12


class NoSuchFiles(HubError):
    """The card names no such config or split, or its patterns match no Parquet file."""


def card_files(
    card: Mapping[str, Any], names: Iterable[str], config: str | None, split: str, where: str
) -> tuple[str, ...]:
    """The ``.parquet`` names of one split of one config, sorted.

    ``where`` names the repository and revision in errors. ``NoSuchFiles`` lists the configs, splits
    or files that are there.
    """
    parquet = sorted(name for name in names if name.endswith(".parquet"))
    entry = _config_entry(card, parquet, config, where)
    title = f"config {entry.get('config_name')!r} of {where}"
    patterns = split_patterns(entry, title)
    if split not in patterns:
        raise NoSuchFiles(
            f"{title} has no split {split!r}; it has {_quoted(patterns) or 'no data_files'}. "
            "Choose a config that has it"
        )
    found = [name for name in parquet if _matches_any(name, patterns[split])]
    if not found:
        raise NoSuchFiles(
            f"{title}: the patterns of split {split!r} ({_quoted(patterns[split])}) match no "
            f".parquet file; the repository has {_listing(parquet)}. A dataset stored in another "
            "format can be read from the branch refs/convert/parquet"
        )
    return tuple(found)


def converted_files(names: Iterable[str], config: str, split: str, where: str) -> tuple[str, ...]:
    """The files of one split on the branch of converted files, ``config/split/*.parquet``.

    A folder ``partial-split`` holds only the beginning of the data, so it is refused.
    """
    parquet = sorted(name for name in names if name.endswith(".parquet"))
    found = [name for name in parquet if _folder(name) == f"{config}/{split}"]
    if any(_folder(name) == f"{config}/partial-{split}" for name in parquet):
        raise NoSuchFiles(
            f"{where} holds only a part of {config}/{split} (folder {config}/partial-{split}): the "
            "conversion stopped at its size limit. Read the original files instead of the "
            "converted ones"
        )
    if not found:
        folders = sorted({_folder(name) for name in parquet})
        raise NoSuchFiles(
            f"{where} has no folder {config}/{split}; it has {_listing(folders)}. Correct the "
            "config or split of the parquet pointer"
        )
    return tuple(found)


def split_patterns(entry: Mapping[str, Any], title: str) -> dict[str, list[str]]:
    """The patterns of each split of a config, below its ``data_dir`` if it has one."""
    data_files = entry.get("data_files")
    if isinstance(data_files, list) and any(isinstance(item, Mapping) for item in data_files):
        pairs = [_split_and_path(item, title) for item in data_files]
    elif isinstance(data_files, Mapping):
        pairs = list(data_files.items())
    else:
        pairs = [] if data_files is None else [("train", data_files)]
    base = str(entry.get("data_dir") or "").strip("/")
    out: dict[str, list[str]] = {}
    for split, paths in pairs:
        listed = paths if isinstance(paths, list) else [paths]
        out.setdefault(str(split), []).extend(_below(base, str(path)) for path in listed)
    return out


def _config_entry(
    card: Mapping[str, Any], parquet: Sequence[str], config: str | None, where: str
) -> Mapping[str, Any]:
    configs = card.get("configs")
    entries = [item for item in configs or () if isinstance(item, Mapping)]
    if not entries:
        raise NoSuchFiles(
            f"the card of {where} lists no configs, so nothing says which files are the training "
            f"split; the repository has {_listing(parquet)}. Download the files you want into a "
            "folder and give that folder instead"
        )
    named = {str(item.get("config_name")): item for item in entries}
    if config is not None:
        if config not in named:
            raise NoSuchFiles(f"{where} has no config {config!r}; it has {_quoted(named)}")
        return named[config]
    default = [item for item in entries if item.get("default") is True]
    if len(entries) == 1 or default or "default" in named:
        return (default or [named.get("default", entries[0])])[0]
    raise NoSuchFiles(
        f"{where} has several configs and no default: {_quoted(named)}; name one of them"
    )


def _split_and_path(item: Any, title: str) -> tuple[str, Any]:
    if not (isinstance(item, Mapping) and "split" in item and "path" in item):
        raise NoSuchFiles(
            f"{title}: an entry of data_files is {item!r}; expected the keys split and path"
        )
    return str(item["split"]), item["path"]


def _below(base: str, path: str) -> str:
    joined = f"{base}/{path}" if base else path
    return joined.removeprefix("./")


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(_matches(name, pattern) for pattern in patterns)


def _matches(name: str, pattern: str) -> bool:
    from fsspec.utils import glob_translate  # type: ignore[import-untyped]  # slow to import

    if pattern.startswith("hf://"):  # a full address: only the part behind the revision counts
        pattern = re.sub(r"^hf://datasets/[^/]+/[^/]+?(@[^/]+)?/", "", pattern)
    if "**" in pattern and any("**" in part and part != "**" for part in pattern.split("/")):
        pattern = pattern.replace("**", "*")
    if re.match(glob_translate(pattern), name) is None:
        return False
    return all(_count(name, mark) == _count(pattern, mark) for mark in (".", "__"))


def _count(path: str, mark: str) -> int:
    return sum(part.startswith(mark) for part in PurePosixPath(path).parts)


def _folder(name: str) -> str:
    return str(PurePosixPath(name).parent)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _listing(names: Sequence[str]) -> str:
    if not names:
        return "no parquet files"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
