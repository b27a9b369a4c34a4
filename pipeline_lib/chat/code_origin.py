"""The origin of code: Python itself, an installed distribution, or the user's own files.

Installed code is identified by the name and version of its distribution. All other code counts as
the user's, also editable installs and this library, and is identified by its behaviour.
"""

import functools
import importlib.metadata
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

_OWN = __name__.partition(".")[0]


def installed_version(module: str | None) -> str | None:
    """The text that identifies the code of a module; None for the user's own code.

    It is ``"python"`` for the standard library, else the distributions of the top-level package,
    such as ``"numpy 2.4.6"``.
    """
    root = (module or "__main__").partition(".")[0]
    if root in ("__main__", _OWN):  # a notebook is the user's code, wherever its kernel was started
        return None
    if root in sys.stdlib_module_names:
        return "python"
    return _distribution(root) if _is_installed(root) else None


def _is_installed(root: str) -> bool:
    try:
        spec = importlib.util.find_spec(root)
    except (ImportError, ValueError):  # a module that was made in memory has no spec
        return False
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    return any(Path(place).is_relative_to(folder) for place in places for folder in _site_folders())


@functools.cache
def _site_folders() -> frozenset[str]:
    paths = sysconfig.get_paths()
    found = {paths["purelib"], paths["platlib"], *site.getsitepackages()}
    return frozenset({*found, site.getusersitepackages()})


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
