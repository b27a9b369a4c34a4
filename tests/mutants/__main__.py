"""Change the library in small ways and see whether its tests notice: ``python -m tests.mutants``.

Every change is tried in a copy of the checkout against the tests of its module alone. The exit
status is 1 if fewer than 95 % of the changes were noticed. A run that was interrupted goes on where
it was.
"""

import argparse
import difflib
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from tests.mutants.copies import Worker, workers
from tests.mutants.results import (
    Known,
    Mutant,
    digest_of,
    equivalents,
    is_equivalent,
    mutants,
    sampled,
)
from tests.mutants.scope import checked_by, module_path
from tests.mutants.worker import Job, Trial

Item = TypeVar("Item")
ROOT = Path(__file__).parents[2]
NEEDED = 0.95
SLOWER, MORE_SECONDS = 4, 20
"""A mutant's tests may take so many times the seconds of the unchanged ones, and so many more."""


class Bench:
    """Workers that try sources, as many at a time as there are; remembers the unchanged times."""

    def __init__(self, idle: Sequence[Worker]) -> None:
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in idle:
            self._idle.put(worker)
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def attempt(self, module: str, source: bytes, patience: int = 1) -> Trial:
        """Run the tests of a module with this source in its place.

        One that takes too long is tried again with more ``patience``: the machine may be busy.
        """
        path = module_path(ROOT, module)
        tests = [str(test.relative_to(ROOT)) for test in checked_by(ROOT, module)]
        limit = (self._seconds.get(module, 900.0) * SLOWER + MORE_SECONDS) * patience
        job = Job(
            path=str(path.relative_to(ROOT)), source=source.decode(), tests=tests, seconds=limit
        )
        worker = self._idle.get()
        try:
            trial = worker.run(job)
        finally:
            self._idle.put(worker)
        if trial["outcome"] == "timeout" and patience == 1:
            return self.attempt(module, source, patience=3)
        return trial

    def measure(self, module: str) -> None:
        """Run the tests of the unchanged module; ``SystemExit`` if they do not pass."""
        trial = self.attempt(module, module_path(ROOT, module).read_bytes())
        if trial["outcome"] != "passed":
            raise SystemExit(f"the tests of {module} fail ({trial['outcome']}) without any change")
        self._seconds[module] = trial["seconds"]


def _try_all(chosen: Iterable[Mutant], known: Known, count: int) -> dict[Mutant, str]:
    """The outcome of every mutant: "failed" (noticed), "timeout" or "passed" (survived)."""
    digests = {m: digest_of(ROOT, m.module, _source(m)) for m in chosen}
    outcomes = {m: found for m, digest in digests.items() if (found := known.get(digest))}
    left = [m for m in digests if m not in outcomes]
    if not left:
        return outcomes
    with workers(ROOT, count) as idle, ThreadPoolExecutor(count) as pool:
        bench = Bench(idle)

        def work(mutant: Mutant) -> None:
            outcomes[mutant] = bench.attempt(mutant.module, _source(mutant))["outcome"]
            known.add(digests[mutant], outcomes[mutant])
            _say(f"{len(outcomes)}/{len(digests)}", outcomes[mutant], mutant)

        try:
            _all(pool, bench.measure, sorted({m.module for m in left}))
            _all(pool, work, left)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in idle:
                worker.stop()
            raise
    return outcomes


def _all(pool: ThreadPoolExecutor, work: Callable[[Item], None], items: list[Item]) -> None:
    for future in [pool.submit(work, item) for item in items]:
        future.result()


def _source(mutant: Mutant) -> bytes:
    return mutant.change.applied(module_path(ROOT, mutant.module).read_bytes())


_WORDS = {"failed": "killed", "timeout": "timeout", "passed": "SURVIVED"}


def _say(place: str, outcome: str, mutant: Mutant) -> None:
    change = mutant.change
    line = f"{place:>9} {_WORDS[outcome]:8} {mutant.module}: {change.old}  ->  {change.new}"
    print(line, flush=True)


def _difference(mutant: Mutant) -> str:
    path = module_path(ROOT, mutant.module)
    texts = [path.read_bytes().decode().splitlines(), _source(mutant).decode().splitlines()]
    lines = list(difflib.unified_diff(*texts, lineterm="", n=1))[2:]
    return "\n".join([f"{path.relative_to(ROOT)}  ({mutant.change.operator})", *lines])


def _report(outcomes: dict[Mutant, str], spared: int, seconds: float) -> int:
    counts = Counter(outcomes.values())
    for mutant, outcome in outcomes.items():
        if outcome == "passed":
            print(f"\n{_difference(mutant)}")
    noticed = counts["failed"] + counts["timeout"]
    share = noticed / max(len(outcomes), 1)
    print(
        f"\n{len(outcomes)} mutants: {counts['failed']} killed, {counts['timeout']} timeouts, "
        f"{counts['passed']} survived: {share:.1%} noticed; {spared} equivalent ones left out; "
        f"{seconds / 60:.1f} minutes"
    )
    return 0 if share >= NEEDED else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    add = parser.add_argument
    add("--number", type=int, default=240, help="mutants in the sample (default: 240)")
    add("--seed", type=int, default=0, help="another seed, another sample")
    add("--all", action="store_true", help="all mutants, not a sample")
    add("--module", action="append", default=[], help="only this module, as corpus.verify")
    add("--workers", type=int, default=2, help="mutants tried at the same time (default: 2)")
    add("--results", type=Path, default=ROOT / "data" / "mutants.txt", help="known results")
    add("--list", action="store_true", help="only list the mutants")
    return parser.parse_args()


def main() -> int:
    """The command line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the copies are removed
    given, started = _arguments(), time.monotonic()
    everything, known_equivalents = mutants(ROOT, given.module), equivalents()
    able = [m for m in everything if not is_equivalent(m, known_equivalents)]
    chosen = able if given.all else sampled(able, given.number, given.seed)
    if given.list:
        print("\n".join(mutant.name for mutant in chosen))
        return 0
    try:
        outcomes = _try_all(chosen, Known(given.results), given.workers)
    except KeyboardInterrupt:
        print(f"stopped; run it again to go on, {given.results} holds what is known")
        return 130
    return _report(outcomes, len(everything) - len(able), time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())
