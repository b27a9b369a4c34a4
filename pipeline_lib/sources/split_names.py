"""The split that the name of a file speaks of, by the rule of the library ``datasets``. Pure.

A word for a split stands in the name of the file or of one of its folders, between the ends of the
name, separators and digits: ``train-00000.parquet`` and ``data_train/a.parquet`` are of the split
``train``, ``pretrain-0.parquet`` and ``latest.parquet`` are of none. Unlike there, large letters
are as good as small ones.
"""

import re
from collections.abc import Mapping, Sequence

_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SEPARATORS = r"[-._ 0-9]"
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    split: re.compile(
        rf"(?:^|/|{_SEPARATORS})(?:{'|'.join(words)})(?:$|/|{_SEPARATORS})", re.IGNORECASE
    )
    for split, words in _WORDS.items()
}


def splits_named(name: str) -> list[str]:
    """The splits of which a relative path with ``/`` speaks, mostly none or one."""
    return [split for split, pattern in _PATTERNS.items() if pattern.search(name)]


def outside_split(names: Sequence[str], split: str) -> dict[str, str]:
    """Name -> reason of each file that is not of one split, where any name speaks of a split.

    Where none does, all files are of every split.
    """
    named = {name: splits_named(name) for name in names}
    if not any(named.values()):
        return {}
    return {name: _reason(found) for name, found in named.items() if found != [split]}


def _reason(found: Sequence[str]) -> str:
    if len(found) > 1:
        return f"named for {' and '.join(found)}"
    return f"split {found[0]}" if found else "named for no split, and others are"
