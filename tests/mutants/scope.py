"""Which modules are changed, and which tests have to notice."""

import ast
import functools
from pathlib import Path

PACKAGE = "pipeline_lib"
CONCERNS = {
    "order": ("selection", "shuffling", "corpus.batches", "corpus.reader", "training.batch_order"),
    "commit": ("storage", "corpus.checkpoint", "corpus.restore", "corpus.shard_writer",
               "corpus.shard_cutter", "corpus.snapshot", "corpus.staging", "corpus.lane",
               "corpus.publish", "chat.store_writer", "token_caches.build"),
    "masks": ("templates", "token_caches.rows", "token_caches.sample_rows",
              "token_caches.fitting", "token_caches.row_cache"),
    "keys": ("digest", "chat.source_store", "chat.synthetic_rejections", "corpus.recipe",
             "corpus.resume_checks", "token_caches.caches", "token_caches.trained_tokenizer"),
    "counts": ("corpus.encoding", "corpus.manifest", "corpus.verify", "token_caches.counts",
               "token_caches.layout", "chat.mixture", "chat.store", "training.windows"),
}  # fmt: skip
"""Concern -> rooms and modules."""
TABLES = {"templates.families"}
"""Modules of those rooms that are data; their tests hold what is derived with them."""


def module_path(root: Path, module: str) -> Path:
    """The file of a module that is given by its dotted path below the package."""
    return (root / PACKAGE / module.replace(".", "/")).with_suffix(".py")


def modules(root: Path) -> list[str]:
    """The modules of all concerns; ``ValueError`` for a name that leads nowhere."""
    found = set[str]()
    for name in (name for names in CONCERNS.values() for name in names):
        room = root / PACKAGE / name.replace(".", "/")
        inside = [f"{name}.{path.stem}" for path in room.glob("*.py") if path.stem != "__init__"]
        if not inside and not module_path(root, name).is_file():
            raise ValueError(f"{name} is no room and no module; correct tests/mutants/scope.py")
        found.update(inside or [name])
    return sorted(found - TABLES)


def checked_by(root: Path, module: str) -> list[Path]:
    """The test file of a module; without one, those of the modules that import it.

    Modules of its own room come first. ``ValueError`` if nothing with a test file imports it.
    """
    found = _checked_by(root, module)
    if not found:
        wanted = _test_file(root, module).relative_to(root)
        raise ValueError(f"no test file belongs to {module}; write {wanted}")
    return sorted(found)


def _checked_by(root: Path, module: str) -> set[Path]:
    own = _test_file(root, module)
    if own.is_file():
        return {own}
    room, package = module_path(root, module).parent, root / PACKAGE
    for paths in (room.glob("*.py"), package.rglob("*.py")):
        users = [path for path in paths if module in _imports(path)]
        names = [".".join(path.relative_to(package).with_suffix("").parts) for path in users]
        if found := {test for name in names for test in _checked_by(root, name)}:
            return found
    return set()


def _test_file(root: Path, module: str) -> Path:
    *rooms, name = module.split(".")
    return root.joinpath("tests", *rooms, f"test_{name}.py")


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    """The modules of the package, and the names in them, that a file imports."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            place = (node.module or "")[len(PACKAGE) + 1 :]
            found |= {place, *(f"{place}.{alias.name}" for alias in node.names)}
    return frozenset(found)
