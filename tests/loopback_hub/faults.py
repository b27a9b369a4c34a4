"""What can go wrong with a request, ordered by a test before it is made."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

FOREVER = 1 << 62


@dataclass
class Fault:
    """Spoils ``times`` requests whose method and path match, after letting ``skip`` pass.

    ``path`` is searched in the raw request path with its query, ``method`` must match whole;
    both are regular expressions. What happens (one of):

    ``status``        this status with ``headers`` and no useful body
    ``reset``         a TCP reset before any answer; with ``cut_after``, in the middle of the body
    ``cut_after``     the true headers, this many bytes of the body, then the connection closes
    ``corrupt``       a body of the right size whose first bytes are wrong
    ``ignore_range``  the whole file with status 200 although a range was asked for
    ``delay``         seconds to wait first; alone, the answer is then the true one
    """

    path: str = ""
    method: str = "GET|HEAD|POST"
    times: int = 1
    skip: int = 0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    reset: bool = False
    cut_after: int | None = None
    corrupt: bool = False
    ignore_range: bool = False
    delay: float = 0.0

    def __post_init__(self) -> None:
        effects = (self.reset or self.cut_after is not None, self.status is not None)
        if sum((*effects, self.corrupt, self.ignore_range)) > 1:
            raise ValueError(f"a fault has one effect besides its delay, not several: {self}")
        if not (any(effects) or self.corrupt or self.ignore_range or self.delay):
            raise ValueError(f"a fault without an effect: {self}")

    @property
    def before_any_answer(self) -> bool:
        return self.reset and self.cut_after is None

    def matches(self, method: str, path: str) -> bool:
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


class Faults:
    """The faults on order; the first that matches is taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._waiting.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for a request, counted down; None if it goes well."""
        with self._lock:
            for fault in self._waiting:
                if fault.times > 0 and fault.matches(method, path):
                    if fault.skip > 0:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    return fault
        return None
