"""What is known of mutants from earlier runs, and which of them no test can notice.

A result holds as long as the changed source and its test files stay the same.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypedDict

from tests.mutants.operators import Change, changes
from tests.mutants.scope import checked_by, module_path, modules

EQUIVALENTS = Path(__file__).with_name("equivalents.json")


class Mutant(NamedTuple):
    """A change of a module. ``number`` counts equal lines that are changed alike."""

    module: str
    change: Change
    number: int

    @property
    def name(self) -> str:
        """A text that stays when lines move."""
        return f"{self.module}\t{self.change.old}\t{self.change.new}\t{self.number}"


class Equivalent(TypedDict):
    """A changed line that behaves like the line it replaces, and why it does."""

    module: str
    old: str
    new: str
    why: str


def mutants(root: Path, chosen: Iterable[str] = ()) -> list[Mutant]:
    """The mutants of all modules in scope, or of those chosen, in order."""
    found = []
    for module in sorted(chosen) or modules(root):
        seen: dict[tuple[str, str], int] = {}
        for change in changes(module_path(root, module).read_bytes()):
            lines = (change.old, change.new)
            seen[lines] = seen.get(lines, -1) + 1
            found.append(Mutant(module, change, seen[lines]))
    return found


def sampled(everything: list[Mutant], number: int, seed: int) -> list[Mutant]:
    """A sample that depends on the seed and the names alone; a larger one has it inside."""

    def rank(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed}\t{mutant.name}".encode()).digest()

    kept = set(sorted(everything, key=rank)[:number])
    return [mutant for mutant in everything if mutant in kept]


def equivalents() -> list[Equivalent]:
    """The table of equivalent mutants."""
    found: list[Equivalent] = json.loads(EQUIVALENTS.read_text())
    return found


def is_equivalent(mutant: Mutant, known: Iterable[Equivalent]) -> bool:
    """Whether the table has the mutant's lines."""
    here = (mutant.module, mutant.change.old, mutant.change.new)
    return any((e["module"], e["old"], e["new"]) == here for e in known)


def digest_of(root: Path, module: str, source: bytes) -> str:
    """Digest of a changed source and of the test files that are to notice it."""
    own = [path.relative_to(root).as_posix() for path in checked_by(root, module)]
    digest = hashlib.sha256(json.dumps([module, own]).encode())
    for data in (source, *((root / path).read_bytes() for path in own)):
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()


class Known:
    """Results by digest, appended to a file one a line, so that a run can go on after any end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._results: dict[str, str] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                digest, _, outcome = line.partition(" ")
                self._results[digest] = outcome

    def get(self, digest: str) -> str | None:
        """The outcome, if it is known."""
        return self._results.get(digest)

    def add(self, digest: str, outcome: str) -> None:
        """Remember an outcome."""
        self._results[digest] = outcome
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(f"{digest} {outcome}\n")
