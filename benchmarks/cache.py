"""The folder that holds all that is made here; what lies in ``work`` is made anew each time."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT, CACHE = HERE.parent, HERE / ".cache"


def scratch(name: str) -> Path:
    """The path of a folder in ``work``; what was there is removed."""
    folder = CACHE / "work" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    clear(folder)
    return folder


def clear(folder: Path) -> None:
    """Remove a folder, and what an unfinished run of the project left beside it."""
    for path in (folder, folder.with_name(folder.name + ".incomplete")):
        shutil.rmtree(path, ignore_errors=True)


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that is kept; ``make`` fills it if it is not complete."""
    folder = CACHE / name
    if not (folder / "complete").exists():
        print(f"making {folder}", flush=True)
        clear(folder)
        folder.mkdir(parents=True)
        make(folder)
        (folder / "complete").touch()
    return folder


def peers() -> Path:
    """The folder that the peers are installed in."""
    wanted = HERE / "requirements-peers.txt"
    name = f"peers-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:8]}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]

    def install(folder: Path) -> None:
        subprocess.run([*pip, "-r", wanted, "--target", folder], check=True)

    return made_once(name, install)
