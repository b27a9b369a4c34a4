"""The shape of a package, read from its files: rooms, imports, addresses, sizes, names.

Modules are known by their dotted path, as ``"corpus.shards"``. Each check returns the faults it
finds, so that it can be tried on a copy of the package in which a fault was planted.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path

FUNCTION_LINES, FILE_LINES = 45, 285
ADDRESSES: dict[str, tuple[str, ...]] = {
    "torch": ("training",),
    "tokenizers": ("tokenization",),
    "gigatoken": ("tokenization",),
    "huggingface_hub": ("hub",),
    "tenacity": ("hub",),
    "httpx": ("hub",),
    "fsspec": ("hub",),
    "yaml": ("hub",),
    "datasets": ("hub", "downloads", "sampledata"),
    "pyarrow.parquet": ("sources", "hub.footers", "sampledata"),
    "pyarrow.json": ("sources.json_lines",),
    "msgspec": ("storage.typed_json",),
    "tqdm": ("progress",),
    "psutil": ("machine",),
    "fcntl": ("storage.lock", "storage.system_calls"),
    "signal": ("signals",),
    "argparse": ("prepare_data",),
    "importlib.metadata": ("chat.code_origin", "corpus", "tokenization"),
}
"""An outside thing -> the rooms and modules that may name it."""
NOWHERE = (
    *("pickle", "random", "transformers", "ray", "subprocess", "socket", "requests", "tempfile"),
    *("urllib", "http", "aiohttp"),
)
HEAVY = ("torch", "datasets", "gigatoken", "huggingface_hub", "transformers", "psutil", "tenacity")
"""Libraries that are loaded only when they are used: not by importing a module."""
PURE = (
    *("selection", "shuffling", "records", "errors", "columns", "corpus.recipe"),
    *("chat.conversation", "chat.turns", "chat.transcripts", "chat.preference_labels"),
    *("chat.messages", "chat.thoughts", "chat.turn_fields", "chat.reject", "chat.json_values"),
    *("chat.tool_calls", "chat.tool_schemas", "chat.turn_order"),
    *("chat.trees", "chat.code_names", "chat.code_values", "chat.code_unforeseen"),
    *("hub.cards", "sources.split_names", "templates.chatml", "templates.families"),
    *("chat.store_progress", "chat.store_record"),
    *(
        "tokenization.admission",
        "tokenization.byte_symbols",
        "tokenization.chat_files",
        "tokenization.control_tokens",
        "tokenization.disputed_unicode",
        "tokenization.file_contents",
        "tokenization.training_texts",
    ),
    *("token_caches.layout", "token_caches.counts", "token_caches.rows", "training.batch_order"),
    *("templates.layouts", "templates.policies", "token_caches.fitted"),
    *("token_caches.sample_rows", "token_caches.fitting", "preflight.ratios", "sampledata.schemas"),
)
"""Modules of rules: no file, no socket, no clock."""
EFFECTS = {"os", "time", "threading", "shutil", "datetime", *NOWHERE, *ADDRESSES} - {"fsspec"}
WRITES = {
    *("write_text", "write_bytes", "touch", "mkdir", "rmdir", "unlink", "rename", "symlink_to"),
    *("hardlink_to", "tofile", "save_to_disk", "write_table", "open_memmap", "rmtree", "copytree"),
    *("copyfile", "copy2", "move", "makedirs", "removedirs", "truncate", "ftruncate", "fsync"),
    *("savez", "to_parquet", "to_json", "write_metadata", "OSFile"),
}
WRITES_ELSEWHERE = {
    ("hub.client", "unlink"),  # a file of the Hub's cache that arrived damaged
    ("sampledata.corpus_files", "write_table"),  # into memory; storage writes the bytes
    ("downloads.saved", "save_to_disk"),  # a library's format, synced and hashed before it counts
    ("downloads.saved", "write_table"),
    ("downloads.saved", "OSFile"),
}
FORBIDDEN = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core"}


class Package:
    """A package on disk and the table of rooms in the docstring of its ``__init__``."""

    def __init__(self, root: Path) -> None:
        self.root, self.name = root, root.name

    @cached_property
    def modules(self) -> dict[str, ast.Module]:
        """Dotted path below the package -> parsed module; a room's name stands for its own file."""
        found = {}
        for path in sorted(self.root.rglob("*.py")):
            parts = path.relative_to(self.root).with_suffix("").parts
            dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if dotted:
                found[dotted] = parsed(path.read_text())
        return found

    @cached_property
    def rooms(self) -> dict[str, list[str]]:
        """The table: room -> what its line says; of the ground its modules. Highest first."""
        text = ast.get_docstring(ast.parse((self.root / "__init__.py").read_text())) or ""
        rows: dict[str, list[str]] = {}
        for line in text.splitlines():
            if match := re.fullmatch(r"    (\w+)    +(\S.*)", line):
                rows[match[1]] = match[2].split()
            elif rows and line.startswith(" " * 20):
                rows[list(rows)[-1]] += line.split()
        return rows

    def room_of(self, module: str) -> str:
        """The room of a module; modules of the ground are in ``ground``."""
        first = module.partition(".")[0]
        return "ground" if first in self.rooms.get("ground", ()) else first

    def imports(self, module: str) -> set[str]:
        """Modules of the package that a module names, also inside functions."""
        return {found for name in imported(self.modules[module]) if (found := self._own(name))}

    def _own(self, name: str) -> str | None:
        parts = name.split(".")
        if parts[0] != self.name:
            return None
        for end in range(len(parts), 1, -1):
            if ".".join(parts[1:end]) in self.modules:
                return ".".join(parts[1:end])
        return None

    def lines(self, module: str) -> list[str]:
        """The text of a module."""
        place = self.root / module.replace(".", "/")
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        return path.read_text().splitlines()


@cache
def parsed(text: str) -> ast.Module:
    """The tree of a module's text, made once for all checks."""
    return ast.parse(text)


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree."""
    return tuple(ast.walk(tree))


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything imported."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call, by the last part of the name that is called."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name):
                yield function.id, node
            elif isinstance(function, ast.Attribute):
                yield function.attr, node


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Every function, methods and inner ones too."""
    yield from (node for node in nodes_of(tree) if isinstance(node, ast.FunctionDef))


def length(function: ast.FunctionDef) -> int:
    """Lines of a function."""
    return (function.end_lineno or 0) - function.lineno + 1


def within(module: str, places: tuple[str, ...]) -> bool:
    """Whether a module is one of some places, or in one of them."""
    return any(module == place or module.startswith(f"{place}.") for place in places)


Check = Callable[[Package], list[str]]


def the_table_names_the_rooms_that_are_there(package: Package) -> list[str]:
    """Rooms are folders and single modules; what else lies flat is ground."""
    listed = [room for room in package.rooms if room != "ground"] + package.rooms.get("ground", [])
    there = {module.partition(".")[0] for module in package.modules}
    twice = [name for name in listed if listed.count(name) > 1]
    return sorted({*set(listed) ^ there, *twice})


def no_module_imports_upwards(package: Package) -> list[str]:
    """Between rooms only downwards."""
    height = {room: place for place, room in enumerate(package.rooms)}
    return [
        f"{module} imports {other}"
        for module in package.modules
        for other in sorted(package.imports(module))
        if height[package.room_of(other)] < height[package.room_of(module)]
    ]


def no_two_modules_import_each_other(package: Package) -> list[str]:
    """No circle, however long."""
    graph = {module: package.imports(module) - {module} for module in package.modules}
    while free := [module for module, needs in graph.items() if not needs & graph.keys()]:
        for module in free:
            del graph[module]
    return sorted(graph)


def outside_things_have_their_addresses(package: Package) -> list[str]:
    """Torch in one room, the network in one, a library where it belongs."""
    return [
        f"{module} names {name}"
        for module, tree in package.modules.items()
        for name in imported(tree)
        for thing, places in ADDRESSES.items()
        if (name == thing or name.startswith(f"{thing}.")) and not within(module, places)
    ] + [
        f"{module} names {name}"
        for module, tree in package.modules.items()
        for name in imported(tree)
        if name.partition(".")[0] in NOWHERE
    ]


def rules_have_no_effects(package: Package) -> list[str]:
    """Pure modules touch no file, no socket and no clock."""
    return [
        f"{module} names {name}"
        for module in PURE
        for name in imported(package.modules[module])
        if name.partition(".")[0] in EFFECTS
    ] + [
        f"{module} opens a file"
        for module in PURE
        for called, _ in calls(package.modules[module])
        if called == "open"
    ]


def heavy_libraries_wait_until_they_are_used(package: Package) -> list[str]:
    """Only ``training`` loads torch when it is imported; nothing else loads a heavy library."""
    return [
        f"{module} loads {name} when it is imported"
        for module, tree in package.modules.items()
        if package.room_of(module) != "training"
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imported(ast.Module([node], []))
        if name.partition(".")[0] in HEAVY
    ]


def only_storage_writes(package: Package) -> list[str]:
    """Files that must survive a crash are changed at one address."""
    changing = re.compile(r"\bos\.(rename|replace|link|unlink|remove|mkdir|rmdir|write|truncate)\(")
    return [
        f"{module}: {called} in line {call.lineno}"
        for module, tree in package.modules.items()
        for called, call in calls(tree)
        if not within(module, ("storage",))
        and (module, called) not in WRITES_ELSEWHERE
        and (called in WRITES or (called == "open" and set(_mode(call)) & set("wax+")))
        and not _goes_through_storage(package, module, call)
    ] + [
        f"{module}: {match[0]}"
        for module in package.modules
        if module != "storage.system_calls"
        for match in changing.finditer("\n".join(package.lines(module)))
    ]


def _goes_through_storage(package: Package, module: str, call: ast.Call) -> bool:
    owner = ast.unparse(call.func).split(".")[0]
    names = (name for name in imported(package.modules[module]) if name.endswith(f".{owner}"))
    return any(name.startswith(f"{package.name}.storage.") for name in names)


def _mode(call: ast.Call) -> str:
    """The constant mode of an ``open``: second argument of the builtin, first of the method."""
    first = 1 if isinstance(call.func, ast.Name) else 0
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    for argument in [*given, *call.args[first : first + 2]]:
        if isinstance(argument, ast.Constant) and re.fullmatch(r"[rwaxbt+]+", str(argument.value)):
            return str(argument.value)
    return "r"


def memory_maps_are_read_only(package: Package) -> list[str]:
    """A map that may be written extends a cut file with zeros."""
    wrong = []
    for module, tree in package.modules.items():
        for called, call in calls(tree):
            values = [a for a in [*call.args, *(k.value for k in call.keywords)]]
            modes = [value.value for value in values if isinstance(value, ast.Constant)]
            is_load = ast.unparse(call.func) == "np.load" and "mmap_mode" in ast.unparse(call)
            if (called == "memmap" or is_load) and "r" not in modes:
                wrong.append(f"{module}: line {call.lineno}")
    return wrong


def randomness_is_raw_pcg64_at_its_addresses(package: Package) -> list[str]:
    """Raw outputs are guaranteed for ever, other methods are not."""
    return [
        f"{module}: {ast.unparse(node)}"
        for module, tree in package.modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) == "np.random"
        and (module not in ("shuffling", "selection") or node.attr not in ("PCG64", "SeedSequence"))
    ]


def nothing_is_printed_or_asserted(package: Package) -> list[str]:
    """The command line prints, and nobody else; asserts can be switched off."""
    return [
        f"{module} prints"
        for module, tree in package.modules.items()
        if module != "prepare_data" and "print" in dict(calls(tree))
    ] + [
        f"{module} asserts"
        for module, tree in package.modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]


def nothing_is_swallowed(package: Package) -> list[str]:
    """``except Exception`` needs a comment that says why, or a ``raise``."""
    wrong = []
    for module in package.modules:
        lines = package.lines(module)
        for number, line in enumerate(lines, 1):
            broad = re.search(r"except (Base)?Exception\b", line) and "raise" not in line
            said = "#" in line or any("raise" in after for after in lines[number : number + 3])
            if re.match(r"\s*except\s*:", line) or (broad and not said):
                wrong.append(f"{module}:{number}")
    return wrong


def names_say_what_a_thing_is(package: Package) -> list[str]:
    """No module for odds and ends, no Manager; one public name for one class."""
    classes = [
        (node.name, module)
        for module, tree in package.modules.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    names = [name for name, _ in classes]
    vague = re.compile(r"(Manager|Handler|Factory|Processor|Helper)$")
    return [
        *(module for module in package.modules if module.rpartition(".")[2] in FORBIDDEN),
        *(f"{module}.{name}" for name, module in classes if vague.search(name)),
        *(f"{module}.{name} has a double" for name, module in classes if names.count(name) > 1),
    ]


def functions_and_files_stay_small(package: Package) -> list[str]:
    """A file fits on a few screens, a function on one; the median function has about ten lines."""
    everything = [(m, f) for m, tree in package.modules.items() for f in functions(tree)]
    lengths = sorted(length(function) for _, function in everything)
    return [
        *(f"{m}.{f.name}: {length(f)} lines" for m, f in everything if length(f) > FUNCTION_LINES),
        *(m for m in package.modules if len(package.lines(m)) > FILE_LINES),
        *(["the median function is long"] if lengths[len(lengths) // 2] > 12 else []),
    ]


def everything_is_annotated(package: Package) -> list[str]:
    """Arguments and results."""
    bare = []
    for module, tree in package.modules.items():
        for function in functions(tree):
            given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            given += [a for a in (function.args.vararg, function.args.kwarg) if a]
            free = [a.arg for a in given if a.annotation is None and a.arg not in ("self", "cls")]
            if free or (function.returns is None and function.name != "__init__"):
                bare.append(f"{module}.{function.name}: {free or 'result'}")
    return bare


def everything_public_is_described(package: Package) -> list[str]:
    """Modules, classes and functions have docstrings."""
    silent = [module for module, tree in package.modules.items() if not ast.get_docstring(tree)]
    return silent + [
        f"{module}.{node.name}"
        for module, tree in package.modules.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]


def importing_does_no_work(package: Package) -> list[str]:
    """No call stands in the body of a module as a statement of its own."""
    return [
        f"{module}: {ast.unparse(node)}"
        for module, tree in package.modules.items()
        for node in tree.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]


def control_tokens_are_written_down_once(package: Package) -> list[str]:
    """A second list of special tokens would drift from the first."""
    marks = ("<|im_start|>", "<|im_sep|>", "<|pad|>")
    return [
        module
        for module, tree in package.modules.items()
        if module != "tokenization.control_tokens"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in marks
    ]


def few_values_are_of_any_type(package: Package) -> list[str]:
    """State has types: fewer than fifteen ``dict[str, Any]`` in all, each with a reason."""
    found = [
        f"{module}: {line.strip()}"
        for module in package.modules
        for line in package.lines(module)
        if "dict[str, Any]" in line
    ]
    return found if len(found) >= 15 else []


CHECKS: tuple[Check, ...] = (
    the_table_names_the_rooms_that_are_there,
    no_module_imports_upwards,
    no_two_modules_import_each_other,
    outside_things_have_their_addresses,
    rules_have_no_effects,
    heavy_libraries_wait_until_they_are_used,
    only_storage_writes,
    memory_maps_are_read_only,
    randomness_is_raw_pcg64_at_its_addresses,
    nothing_is_printed_or_asserted,
    nothing_is_swallowed,
    names_say_what_a_thing_is,
    functions_and_files_stay_small,
    everything_is_annotated,
    everything_public_is_described,
    importing_does_no_work,
    control_tokens_are_written_down_once,
    few_values_are_of_any_type,
)
