"""What a walk over objects can not foresee: the outside world, reflection, clocks and chance. Pure.

The list is short on purpose. It lets the key say early what the probe proves later: that a
normalizer does not depend on its row and its code alone.
"""

BUILTINS = frozenset(
    ("globals", "locals", "vars", "eval", "exec", "__import__", "open", "input", "id", "hash")
)
"""Builtins whose result depends on more than their arguments; ``hash`` on the process."""
ATTRIBUTES = frozenset(
    ("__globals__", "__builtins__", "__subclasses__", "f_globals", "f_locals", "f_builtins")
) | {"read_text", "read_bytes", "environ", "import_module", "__reduce_ex__"}
"""Attributes that lead out of what is walked, whatever object they are taken from."""
_MODULES = frozenset(
    ("posix", "nt", "genericpath", "glob", "secrets", "subprocess", "socket", "_socket", "sqlite3")
) | {"urllib.request", "http.client", "tempfile", "shutil", "_io"}
"""Modules whose functions ask the machine."""
_CALLS = frozenset(
    f"time.{name}{unit}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
) | {
    *("time.localtime", "time.ctime", "datetime.datetime.now", "datetime.datetime.utcnow"),
    *("datetime.datetime.today", "datetime.date.today", "os.getenv", "os.getenvb", "os.walk"),
    *("uuid.uuid1", "uuid.uuid4", "importlib.import_module", "importlib.reload"),
    *(
        "sys._getframe",
        "inspect.stack",
        "inspect.currentframe",
        "gc.get_objects",
        "codecs.open",
        "io.open",
    ),
    *("os.environ", "os.environb", "sys.modules", "sys.stdin"),
}
_PLAIN = frozenset(("posix.fspath", "genericpath.commonprefix", "_io.StringIO", "_io.BytesIO"))


def is_unforeseen(module: str, name: str) -> bool:
    """Whether a function, class or object of an installed module depends on more than the code."""
    full = f"{module}.{name}"
    return full not in _PLAIN and (full in _CALLS or module in _MODULES)
