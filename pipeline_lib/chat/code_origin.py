"""The origin of code: Python itself, an installed distribution, or the user's own files.

Installed code is identified by the name and version of its distribution. All other code counts as
the user's, also editable installs and this library, and is identified by its behaviour.
"""

import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline_lib import digest

_OWN = __name__.partition(".")[0]
_IN_THE_INTERPRETER = ("built-in", "frozen")


def installed_version(module: Any) -> str | None:
    """The text that identifies the code of a module, by its name; None for the user's own code.

    It is ``"python"`` for the standard library, else the distributions of the top-level package,
    such as ``"numpy 2.4.6"``. The place of the module's file decides, so a user's ``queue.py`` is
    the user's.
    """
    module = module if isinstance(module, str) and module else "__main__"
    root = module.partition(".")[0]
    if root in ("__main__", _OWN):  # a notebook is the user's code, wherever its kernel was started
        return None
    places = _places(module)
    if root in sys.stdlib_module_names:
        return "python" if not places or any(map(_is_python_s, places)) else None
    return _distribution(root) if any(map(_is_in_site, places)) else None


def native_version(module: str) -> str:
    """What identifies code in C: its distribution, or the SHA-256 of the user's extension module.

    Empty for a module that is not written in C.
    """
    version = installed_version(module)
    file = str(getattr(sys.modules.get(module), "__file__", None) or "")
    is_native = file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    return version or (digest.sha256_file(Path(file)) if is_native else "")


def _places(module: str) -> list[str]:
    """Where the code of a module is; of an unknown module, where its top-level package is."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    if spec is None:
        try:
            spec = importlib.util.find_spec(module.partition(".")[0])
        except (ImportError, ValueError):  # a module that was made in memory has no spec
            return ["memory"]
    if spec is None:
        return []
    return [spec.origin] if spec.origin else [*(spec.submodule_search_locations or ())]


def _is_python_s(place: str) -> bool:
    if place in _IN_THE_INTERPRETER:
        return True
    return _is_below(place, _library_folders()) and not _is_in_site(place)


def _is_in_site(place: str) -> bool:
    return _is_below(place, _site_folders())


def _is_below(place: str, folders: frozenset[str]) -> bool:
    return any(place.startswith(folder) for folder in folders)


@functools.cache
def _site_folders() -> frozenset[str]:
    paths = sysconfig.get_paths()
    found = {paths["purelib"], paths["platlib"], *site.getsitepackages()}
    return _spellings({*found, site.getusersitepackages()})


@functools.cache
def _library_folders() -> frozenset[str]:
    paths = sysconfig.get_paths()
    return _spellings({paths["stdlib"], paths["platstdlib"]})


def _spellings(folders: set[str]) -> frozenset[str]:
    """The folders as they are written and as the system resolves them, with a ``/`` at the end."""
    real = {str(Path(folder).resolve()) for folder in folders}
    return frozenset(f"{folder.rstrip('/')}/" for folder in folders | real)


@functools.cache
def _distribution(root: str) -> str | None:
    """Names and versions; None if no distribution has the package, which is walked then."""
    names = sorted(set(_distributions().get(root, ())))
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names) or None


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return {
        root: list(names) for root, names in importlib.metadata.packages_distributions().items()
    }
