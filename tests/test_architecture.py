"""The shape of the code: floors, addresses of outside things, sizes, names, annotations."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline_lib

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pipeline_lib"
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.stem != "__init__"]
MODULES = {path.stem: ast.parse(path.read_text(), str(path)) for path in FILES}
SCRIPTS = {"download_data": ast.parse((ROOT / "download_data.py").read_text())}
DURABLE = {path.stem for path in FILES if path.parent.name == "durable"}
FUNCTION_LINES, FILE_LINES = 45, 330

ADDRESSES = {
    "torch": {"datasets"},
    "tokenizers": {"encoders", "trainers"},
    "gigatoken": {"encoders", "trainers"},
    "huggingface_hub": {"hub", "patience", "footers"},
    "pyarrow.parquet": {"parquet", "foldersource", "footers", "rowstream", "sample"},
    "datasets": {"saved", "fetch", "plans", "sample"},
    "pyarrow.json": {"jsonlines"},
    "yaml": {"hub"},
    "tqdm": {"progress"},
    "psutil": {"machine"},
    "fcntl": {"lock", "syscalls"},
    "signal": {"signals"},
    "argparse": {"prepare_data"},
}
NOWHERE = {
    "pickle",
    "random",
    "transformers",
    "ray",
    "subprocess",
    "socket",
    "requests",
    "tempfile",
}
PURE = NOWHERE | {"os", "time", "threading", "shutil", "datetime", "io"} | set(ADDRESSES)
WRITES = {
    "write_text", "write_bytes", "touch", "mkdir", "rmdir", "unlink", "rename", "symlink_to",
    "hardlink_to", "tofile", "save_to_disk", "write_table", "open_memmap", "rmtree", "copytree",
    "copyfile", "copy2", "move", "makedirs", "removedirs", "truncate", "ftruncate", "fsync",
    "savez", "to_parquet", "to_json", "write_metadata",
}  # fmt: skip
ELSEWHERE = {
    ("hub", "unlink"),  # a file of the Hub's cache that arrived damaged
    ("lock", "ftruncate"),  # the process id inside a lock file is only for messages
    ("sample", "write_table"),  # into memory; durable writes the bytes
    ("saved", "save_to_disk"),  # the same: the format of a library
    ("saved", "write_table"),  # a library's format, synced and hashed before it counts
}


def floors() -> dict[int, list[str]]:
    """The table in the package's docstring: floor -> modules in their order."""
    found: dict[int, list[str]] = {}
    for line in (pipeline_lib.__doc__ or "").splitlines():
        heading = re.match(r" {4}floor (\d)  ", line)
        if heading:
            found[int(heading.group(1))] = []
        elif found and line.startswith(" " * 8):
            found[max(found)] += [word for word in line.split() if not word.endswith("/")]
    return found


def folders() -> dict[str, str]:
    """The same table: module -> folder it is said to lie in, ``.`` for the package itself."""
    found, folder = {}, "."
    for line in (pipeline_lib.__doc__ or "").splitlines():
        if line.startswith(" " * 8):
            folder = "."
            for word in line.split():
                if word.endswith("/"):
                    folder = word[:-1]
                else:
                    found[word] = folder
    return found


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything imported, inside functions and for type checking too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def of_ours(tree: ast.AST) -> set[str]:
    parts = (name.split(".") for name in imports(tree))
    return {
        name for part in parts if part[0] == "pipeline_lib" for name in part[1:3] if name in MODULES
    }


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call by the last part of the name called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name):
                yield function.id, node
            elif isinstance(function, ast.Attribute):
                yield function.attr, node


def test_every_module_stands_once_in_the_table_of_floors() -> None:
    listed = [name for names in floors().values() for name in names]
    assert sorted(listed) == sorted(path.stem for path in FILES)
    assert folders() == {p.stem: p.parent.relative_to(PACKAGE).as_posix() for p in FILES}


def test_a_module_imports_only_what_stands_above_it_in_the_table() -> None:
    order = [name for _, names in sorted(floors().items()) for name in names]
    place = {name: number for number, name in enumerate(order)}
    wrong = [
        f"{name} imports {other}"
        for name, tree in MODULES.items()
        for other in of_ours(tree) & MODULES.keys()
        if place[other] >= place[name]
    ]
    assert wrong == []


def test_the_rules_of_floor_one_touch_no_file_no_socket_and_no_clock() -> None:
    wrong = [
        f"{name} imports {found}"
        for name in floors()[1]
        for found in imports(MODULES[name])
        if found.split(".")[0] in PURE or found in PURE
    ]
    opened = [
        name for name in floors()[1] for called, _ in calls(MODULES[name]) if called == "open"
    ]
    assert (wrong, opened) == ([], [])


@pytest.mark.parametrize("thing", ADDRESSES)
def test_an_outside_thing_has_its_addresses_and_no_other(thing: str) -> None:
    users = {
        name
        for name, tree in MODULES.items()
        for found in imports(tree)
        if found == thing or found.startswith(thing + ".")
    }
    assert users == ADDRESSES[thing]


def test_some_things_are_used_nowhere() -> None:
    users = [
        (name, found)
        for name, tree in (MODULES | SCRIPTS).items()
        for found in imports(tree)
        if found.split(".")[0] in NOWHERE
    ]
    assert users == []


def test_heavy_libraries_are_loaded_only_where_they_are_used() -> None:
    heavy = {"torch", "datasets", "gigatoken", "huggingface_hub", "transformers", "psutil"}
    for name, tree in MODULES.items():
        top = ast.Module([node for node in tree.body], [])
        for node in top.body:
            if isinstance(node, ast.Import | ast.ImportFrom) and name != "datasets":
                loaded = {found.split(".")[0] for found in imports(ast.Module([node], []))}
                assert not loaded & heavy, f"{name} loads {loaded & heavy} when it is imported"


def mode_of(call: ast.Call) -> str:
    """The constant mode of an ``open``: second argument of the builtin, first of the method."""
    first = 1 if isinstance(call.func, ast.Name) else 0
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    for argument in [*given, *call.args[first : first + 2]]:
        if isinstance(argument, ast.Constant) and re.fullmatch(r"[rwaxbt+]+", str(argument.value)):
            return str(argument.value)
    return "r"


def test_only_the_folder_durable_writes_files() -> None:
    wrong = [
        f"{name}: {called} in line {call.lineno}"
        for name, tree in (MODULES | SCRIPTS).items()
        for called, call in calls(tree)
        if name not in DURABLE
        and (name, called) not in ELSEWHERE
        and ast.unparse(call.func).split(".")[0] not in DURABLE
        and (called in WRITES or (called == "open" and set(mode_of(call)) & set("wax+")))
    ]  # fmt: skip
    assert wrong == []


def test_modules_of_the_system_are_not_asked_to_change_the_disk() -> None:
    changing = r"\bos\.(rename|replace|link|unlink|remove|mkdir|rmdir|write|truncate)\("
    wrong = [p.name for p in FILES if re.search(changing, p.read_text())]
    assert wrong == ["syscalls.py"]


def test_memory_maps_are_read_only() -> None:
    for name, tree in MODULES.items():
        for called, call in calls(tree):
            if called == "memmap":
                modes = [a.value for a in [*call.args, *(k.value for k in call.keywords)]
                         if isinstance(a, ast.Constant)]  # fmt: skip
                assert "r" in modes, f"{name}: line {call.lineno}"
            if called == "load" and ast.unparse(call.func) == "np.load":
                kept = [k.value.value for k in call.keywords if k.arg == "mmap_mode"]  # type: ignore[attr-defined]
                assert kept in ([], ["r"]), f"{name}: line {call.lineno}"


def test_randomness_is_raw_pcg64_at_two_addresses() -> None:
    users = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "np.random"
    }
    text = "".join((PACKAGE / f"{name}.py").read_text() for name in users)
    assert users <= {"order", "selection", "sampling"}
    assert set(re.findall(r"np\.random\.(\w+)", text)) == {"PCG64", "SeedSequence"}


def test_the_library_never_prints_and_never_asserts() -> None:
    printing = {name for name, tree in MODULES.items() if "print" in dict(calls(tree))}
    asserting = [
        name for name, tree in (MODULES | SCRIPTS).items()
        for node in ast.walk(tree) if isinstance(node, ast.Assert)
    ]  # fmt: skip
    assert printing == {"prepare_data"} and asserting == []


def test_nothing_is_swallowed() -> None:
    """``except Exception`` needs a comment that says why; a bare ``except`` never stands."""
    for path in FILES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{path.name}:{number}"
            assert not re.match(r"\s*except\s*:", line), where
            if re.search(r"except (Base)?Exception\b", line) and "raise" not in line:
                after = path.read_text().splitlines()[number : number + 3]
                assert "#" in line or any("raise" in text for text in after), where


def test_names_say_what_a_thing_is() -> None:
    assert not {"utils", "helpers", "common", "misc", "util"} & set(MODULES)
    classes = [
        node.name for tree in (MODULES | SCRIPTS).values()
        for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]  # fmt: skip
    wrong = [n for n in classes if re.search(r"(Manager|Handler|Factory|Processor|Helper)$", n)]
    assert wrong == []


def test_functions_and_files_stay_small() -> None:
    long = [
        f"{name}.{function.name}: {length} lines"
        for name, tree in (MODULES | SCRIPTS).items()
        for function in functions(tree)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES
    ]
    large = [p.name for p in FILES if len(p.read_text().splitlines()) > FILE_LINES]
    assert (long, large) == ([], [])


def test_the_median_function_is_about_ten_lines() -> None:
    lengths = sorted(
        (function.end_lineno or 0) - function.lineno + 1
        for tree in MODULES.values()
        for function in functions(tree)
    )
    assert lengths[len(lengths) // 2] <= 12


def test_everything_is_annotated() -> None:
    bare = []
    for name, tree in (MODULES | SCRIPTS).items():
        for function in functions(tree):
            given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            given += [a for a in (function.args.vararg, function.args.kwarg) if a]
            free = [a.arg for a in given if a.annotation is None and a.arg not in ("self", "cls")]
            if free or function.returns is None:
                bare.append(f"{name}.{function.name}: {free or 'result'}")
    assert bare == []


def test_every_module_and_every_public_name_is_described() -> None:
    silent = [name for name, tree in MODULES.items() if not ast.get_docstring(tree)]
    for name, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                silent += [] if ast.get_docstring(node) else [f"{name}.{node.name}"]
    assert silent == []


def work_at_import(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls that stand in the body of a module as statements of their own."""
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node.value


def test_importing_does_no_work() -> None:
    wrong = [
        f"{name}: {ast.unparse(call)}" for name, tree in MODULES.items()
        for call in work_at_import(tree)
    ]  # fmt: skip
    assert wrong == []


def test_the_text_of_a_control_token_is_written_down_once() -> None:
    """A second list of special tokens would drift from the first."""
    users = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and node.value in ("<|im_start|>", "<|im_sep|>", "<|pad|>")
    }
    assert users == {"chat"}
