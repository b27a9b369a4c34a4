"""The identity of a function: what changes it, what does not, what can not be pinned down."""

import importlib
import importlib.util
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline_lib.chat import normalize, store_progress
from pipeline_lib.chat.code_identity import CodeIdentity, changed_between, code_identity
from pipeline_lib.chat.source_store import DECIDE_WHAT_IS_STORED

BASE = '''
import functools
import re
from dataclasses import dataclass
from pipeline_lib.normalizers import tidy

LIMIT = 3
WORD = re.compile("a+")
TABLE = {"cut": lambda text: text[:9]}

@dataclass
class Rules:
    """What is cut."""

    size: int = 4

    def cut(self, text):
        return text[: self.size]

RULES = Rules()

def noted(function):
    @functools.wraps(function)
    def wrapper(row):
        return [*function(row), "noted"]
    return wrapper

def deep(text):
    return text + "deep"

def helper(text, sizes=(1, 2)):
    """Cut it."""
    return TABLE["cut"](RULES.cut(deep(text)))[:LIMIT]

class Outer:
    class Inner:
        limit = LIMIT

@noted
def norm(row):
    return [helper(part) for part in WORD.split(row["text"])]
'''
NUMBER = itertools.count()


def module_names(folder: Path, source: str) -> dict[str, Any]:
    """The names of a module that is neither installed nor part of the library."""
    path = folder / f"cell_{next(NUMBER)}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("notebook_cell", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


Identity = Callable[[str], CodeIdentity]


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return lambda source: code_identity(module_names(tmp_path, source)["norm"])


def test_equal_source_has_an_equal_identity(identity: Identity) -> None:
    assert identity(BASE).sha256 == identity(BASE).sha256
    assert identity(BASE).unresolved == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ('compile("a+")', 'compile("b+")'),
        ('compile("a+")', 'compile("a+", re.I)'),
        ("[:LIMIT]", "[::LIMIT]"),
        ('row["text"]', 'row["body"]'),
        ('"noted"]', '"seen"]'),
        ('+ "deep"', '+ "deeper"'),
        ("text[:9]", "text[:8]"),
        ("size: int = 4", "size: int = 5"),
        ("text[: self.size]", "text[self.size :]"),
        ("RULES = Rules()", "RULES = Rules(7)"),
        ("sizes=(1, 2)", "sizes=(2, 1)"),
        ("@noted\ndef norm", "def norm"),
    ],
)
def test_whatever_the_function_reaches_changes_its_identity(
    identity: Identity, old: str, new: str
) -> None:
    assert old in BASE
    assert identity(BASE).sha256 != identity(BASE.replace(old, new)).sha256


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def norm(row):", "def norm(row):\n    # a comment\n"),
        ('    """Cut it."""\n', '    """Cut it, said otherwise."""\n'),
        ('    """What is cut."""\n', ""),
        ("LIMIT = 3", "\n\n\nLIMIT = 3"),
        ("LIMIT = 3", "OTHER = 5\n\ndef other():\n    return OTHER\n\nLIMIT = 3"),
    ],
)
def test_what_decides_nothing_changes_nothing(identity: Identity, old: str, new: str) -> None:
    assert old in BASE
    assert identity(BASE).sha256 == identity(BASE.replace(old, new)).sha256


def test_a_name_in_the_body_of_a_class_counts(identity: Identity) -> None:
    source = "LIMIT = {}\ndef norm(row):\n    class A:\n        class B:\n            n = LIMIT\n"
    source += "    return row[A.B.n]\n"
    assert identity(source.format(1)).sha256 != identity(source.format(2)).sha256


PAIRS = {
    "a number of an own class": "class L(int): pass\nV = L($)\ndef norm(r): return r[V]",
    "a named tuple": "from typing import NamedTuple\nclass R(NamedTuple):\n    n: int\nV = R($)\n"
    "def norm(r): return r[V.n]",
    "a dict of an own class": "class R(dict): pass\nV = R(a=$)\ndef norm(r): return r[V['a']]",
    "a list of an own class": "class R(list): pass\nV = R([$])\ndef norm(r): return r[V[0]]",
    "a private slot": "class R:\n    __slots__ = ('__n',)\n    def __init__(s): s.__n = $\n"
    "    def get(s): return s.__n\nV = R()\ndef norm(r): return r[V.get()]",
    "slots in one text": "class R:\n    __slots__ = 'size'\n    def __init__(s): s.size = $\n"
    "V = R()\ndef norm(r): return r[V.size]",
    "a member that is a list": "import enum\nclass E(enum.Enum):\n    A = [$]\n"
    "def norm(r): return r[E.A.value[0]]",
    "a method of a builtin type": "V = [str.strip, bytes.strip][$]\ndef norm(r): return V(r)",
    "a wrapper of an installed function": "import functools, yaml\ndef d(f):\n"
    "    @functools.wraps(f)\n    def w(r): return f(r), $\n    return w\nnorm = d(yaml.dump)",
    "a function in an installed wrapper": "from contextlib import contextmanager\n@contextmanager\n"
    "def c(r): yield r + $\ndef norm(r):\n    with c(r) as x: return x",
    "a table under a special name": "class T:\n    __table__ = {'a': lambda x: x[$]}\n"
    "def norm(r): return T.__table__['a'](r)",
    "a made data class": "import dataclasses\n"
    "T = dataclasses.make_dataclass('T', [('a', int, $)])\ndef norm(r): return r[T().a]",
    "a numpy array": "import numpy as np\nV = np.array([$])\ndef norm(r): return V[r]",
    "a default factory": "import collections\nV = collections.defaultdict(lambda: $)\n"
    "def norm(r): return V[r]",
    "a descriptor": "class D:\n    def __get__(s, o, k): return $\nclass T:\n    f = D()\n"
    "V = T()\ndef norm(r): return V.f",
    "a metaclass": "class M(type):\n    def __call__(k): return $\nclass T(metaclass=M): pass\n"
    "def norm(r): return T()",
    "attributes made on demand": "class T:\n    def __getattr__(s, n):\n"
    "        if n[0] == '_': raise AttributeError\n        return $\nV = T()\n"
    "def norm(r): return V.any",
    "a callable object": "class N:\n    def __init__(s, k): s.k = k\n"
    "    def __call__(s, r): return r[s.k]\nnorm = N($)",
    "a method of an object": "class N:\n    def __init__(s, k): s.k = k\n"
    "    def go(s, r): return r[s.k]\nnorm = N($).go",
    "a partial": "import functools\ndef f(a, r): return r[a]\nnorm = functools.partial(f, $)",
    "a cached helper": "import functools\n@functools.lru_cache\ndef h(x): return x + $\n"
    "def norm(r): return h(r)",
    "a generator": "def g(r): yield $\ndef norm(r): return list(g(r))",
    "a builtin's name": "def len(x): return $\ndef norm(r): return len(r)",
    "a value put into an installed module": "import yaml\nyaml.MINE = $\n"
    "def norm(r): return yaml.MINE",
    "a function put into an installed module": "import yaml\ndef f(x): return $\nyaml.mine = f\n"
    "def norm(r): return yaml.mine(r)",
    "the type of the items of a list": "class C:\n    n = $\nV = list[C]\n"
    "def norm(r): return V.__args__[0].n",
}


@pytest.mark.parametrize("what", PAIRS)
def test_whatever_form_a_value_or_function_has_it_counts(identity: Identity, what: str) -> None:
    first, same, other = (identity(PAIRS[what].replace("$", n)) for n in "001")
    assert first.unresolved == ()
    assert first.sha256 == same.sha256 != other.sha256


def test_enclosed_variables_and_defaults_count(identity: Identity) -> None:
    source = "def make(n):\n    def norm(row, k=n):\n        return row[n]\n    return norm\n"
    assert identity(source + "norm = make(1)").sha256 != identity(source + "norm = make(2)").sha256


def test_functions_that_name_each_other_end(identity: Identity) -> None:
    source = "def other(x):\n    return norm(x)\n\ndef norm(x):\n    return other(x)\n"
    assert identity(source).unresolved == ()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("BOX = open(__file__)\ndef norm(r):\n    return BOX.read()", "norm/BOX (TextIOWrapper)"),
        ("BOX = iter([])\ndef norm(r):\n    return next(BOX)", "norm/BOX (list_iterator)"),
        ("import torch\nBOX = torch.ones(1)\ndef norm(r):\n    return BOX", "norm/BOX (Tensor)"),
        ("def norm(r):\n    return globals()['x']", "norm/globals (builtin)"),
        ("def norm(r):\n    return open(r['path']).read()", "norm/open (builtin)"),
        ("def norm(r):\n    return getattr(r, r['name'])", "norm (a computed attribute name)"),
        ("def norm(r):\n    return getattr(r, f\"x{r}\")", "norm (a computed attribute name)"),
        ("def norm(r):\n    global N\n    N = 1", "norm/N (a global that it sets)"),
        ("def norm(r):\n    import none_such as n\n    return n", "norm/none_such (module that"),
        ("import random\ndef norm(r):\n    return random.choice(r)", "norm/random.choice/of (Ran"),
        ("import time as t\ndef norm(r):\n    return t.time()", "norm/t.time (the world outside)"),
        ("from time import time\ndef norm(r):\n    return time()", "norm/time (the world outside)"),
        ("import datetime as d\ndef norm(r):\n    return d.date.today()", "norm/d.date.today (the"),
        ("import os\ndef norm(r):\n    return os.environ['A']", "norm/environ (the world outside)"),
        ("def norm(r):\n    import os\n    return os.getenv('A')", "norm/os.getenv (the world"),
        ("import sys\ndef norm(r):\n    return sys.modules['a'].X", "norm/sys.modules (the world"),
        ("def norm(r):\n    return norm.__globals__['X']", "norm/__globals__ (the world outside)"),
        ("def norm(r):\n    return hash(r)", "norm/hash (builtin)"),
        ("def make():\n    n = 0\n    def norm(r):\n        nonlocal n\n        n += 1\n"
         "    return norm\nnorm = make()", "norm/n (an enclosed variable that it sets)"),
        ("BOX = []\nBOX.append(BOX)\ndef norm(r):\n    return BOX", "norm (nested too deeply)"),
        ("import msgspec\nclass S(msgspec.Struct):\n    a: int = 1\ndef norm(r):\n    return S(r)",
         "norm/S (a class made by StructMeta)"),
    ],
)  # fmt: skip
def test_what_can_not_be_pinned_down_is_named(identity: Identity, source: str, said: str) -> None:
    assert identity(source).unresolved[0].startswith(said)


@pytest.mark.parametrize(
    "use",
    [
        ("re", "re.sub('a', 'b', r, flags=re.I)"),
        ("json", "json.loads(r)"),
        ("numpy", "numpy.log(r) + numpy.pi"),
        ("os", "os.path.join('a', r)"),
        ("time", "time.sleep(0)"),
        ("logging", "logging.getLogger(r).info(r)"),
        ("datetime", "datetime.datetime.fromisoformat(r)"),
        ("pathlib", "pathlib.Path(r).name"),
        ("pyarrow", "pyarrow.array(r)"),
    ],
)
def test_ordinary_use_of_installed_code_can_be_pinned_down(
    identity: Identity, use: tuple[str, str]
) -> None:
    assert identity(f"import {use[0]}\ndef norm(r): return {use[1]}").unresolved == ()
    assert identity(f"def norm(r):\n    import {use[0]}\n    return {use[1]}").unresolved == ()


def test_an_attribute_by_a_constant_name_can_be_pinned_down(identity: Identity) -> None:
    source = 'import math\ndef norm(r):\n    return getattr(r.get("a", b=1), "name", None)\n'
    assert identity(source).unresolved == ()


def test_code_without_source_is_read_from_memory() -> None:
    found = []
    for body in ("row", "row[0]", "row"):
        names: dict[str, Any] = {}
        exec(f"def norm(row): return {body}", names)
        found.append(code_identity(names["norm"]))
    assert found[0].sha256 == found[2].sha256 != found[1].sha256
    assert found[0].unresolved == ()


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two modules of the user; ``my_rules`` takes a function from ``my_words``."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("my_rules", "my_words"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "my_words.py").write_text("SUFFIX = 'a'\ndef word(x):\n    return x + SUFFIX\n")
    (tmp_path / "my_rules.py").write_text(
        "import my_words\nLIMIT = 3\nOTHER = 4\ndef cut(x):\n    return my_words.word(x)[:LIMIT]\n"
    )
    return tmp_path


USES = {
    "attribute": "import my_rules\ndef norm(row):\n    return my_rules.cut(row), my_rules.LIMIT\n",
    "name": "from my_rules import LIMIT, cut\ndef norm(row):\n    return cut(row), LIMIT\n",
    "alias": "import my_rules as r\ndef norm(row):\n    k = r\n    return k.cut(row), k.LIMIT\n",
    "inside": "def norm(row):\n    from my_rules import cut\n    import my_rules as r\n"
    "    return cut(row), r.LIMIT\n",
}


@pytest.mark.parametrize("use", USES)
def test_values_and_helpers_of_own_modules_count_however_far_they_are(
    own_modules: Path, identity: Identity, use: str
) -> None:
    before = identity(USES[use]).sha256
    rules, words = (importlib.import_module(name) for name in ("my_rules", "my_words"))
    if use != "name":  # there the cell has the value it imported
        rules.LIMIT = 7  # type: ignore[attr-defined]
        assert identity(USES[use]).sha256 != before
        rules.LIMIT = 3  # type: ignore[attr-defined]
    words.SUFFIX = "b"  # type: ignore[attr-defined]
    assert identity(USES[use]).sha256 != before
    words.SUFFIX = "a"  # type: ignore[attr-defined]
    assert identity(USES[use]).sha256 == before


@pytest.fixture
def own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the user with a module ``rules`` in it; both have a ``LIMIT``."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("my_package", "my_package.rules"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "my_package").mkdir()
    for name in ("__init__", "rules"):
        (tmp_path / "my_package" / f"{name}.py").write_text("LIMIT = 3\n")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("def norm(r):\n    import my_package.rules\n    return my_package.LIMIT", "my_package"),
        ("import my_package.rules\ndef f(m): return m.LIMIT\ndef norm(r):\n"
         "    return f(my_package.rules)", "my_package.rules"),
        ("def f(m): return m.LIMIT\ndef norm(r):\n    from my_package import rules\n"
         "    return f(rules)", "my_package.rules"),
        ("import my_package as p\ndef norm(r): return p.__dict__['LIMIT']", "my_package"),
        ("import my_package as p\ndef norm(r): return getattr(p, 'LIMIT')", "my_package"),
    ],
)  # fmt: skip
def test_a_module_that_is_passed_on_counts_with_all_it_holds(
    own_package: Path, identity: Identity, source: str, changed: str
) -> None:
    before = identity(source).sha256
    importlib.import_module(changed).LIMIT = 7  # type: ignore[attr-defined]
    assert identity(source).sha256 != before


def test_a_name_that_a_module_loads_when_it_is_asked_for_counts_the_same_before_and_after(
    own_package: Path, identity: Identity
) -> None:
    (own_package / "my_package" / "__init__.py").write_text(
        "def __getattr__(name):\n    if name != 'LIMIT':\n        raise AttributeError(name)\n"
        "    globals()[name] = 3\n    return 3\n"
    )
    source = "import my_package as p\ndef norm(r): return p.LIMIT"
    before = identity(source)
    assert before.unresolved == ()
    assert importlib.import_module("my_package").LIMIT == 3
    assert identity(source).sha256 == before.sha256


def test_a_module_of_the_user_with_the_name_of_one_of_python_is_the_user_s(
    tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "chunk", raising=False)
    (tmp_path / "chunk.py").write_text("LIMIT = 3\ndef cut(x):\n    return x[:LIMIT]\n")
    source = "import chunk\ndef norm(r):\n    return chunk.cut(r)\n"
    before = identity(source).sha256
    sys.modules["chunk"].LIMIT = 4  # type: ignore[attr-defined]
    assert identity(source).sha256 != before


def test_an_extension_module_of_the_user_counts_by_its_file(
    tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "_bisect.so"
    path.write_bytes(Path(importlib.import_module("_bisect").__file__ or "").read_bytes())
    spec = importlib.util.spec_from_file_location("_bisect", path)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "_bisect", importlib.util.module_from_spec(spec))
    source = "import _bisect\ndef norm(r):\n    return _bisect.bisect_left(r, 1)\n"
    before = identity(source).sha256
    built = path.read_bytes() + b"another build"
    path.unlink()  # the loaded one stays mapped
    path.write_bytes(built)
    assert identity(source).sha256 != before


def test_what_changed_is_named_by_its_path(own_modules: Path, identity: Identity) -> None:
    before = identity(USES["attribute"])
    importlib.import_module("my_rules").LIMIT = 7  # type: ignore[attr-defined]
    after = identity(USES["attribute"])
    assert changed_between(before, before) == ()
    assert changed_between(before, after) == ("norm/my_rules.LIMIT", "norm/my_rules.cut/LIMIT")


def test_of_an_own_module_only_what_is_used_counts(own_modules: Path, identity: Identity) -> None:
    before = identity(USES["attribute"]).sha256
    importlib.import_module("my_rules").OTHER = 9  # type: ignore[attr-defined]
    assert identity(USES["attribute"]).sha256 == before


def test_a_file_that_is_edited_while_its_code_is_loaded_changes_nothing_yet(
    own_modules: Path, identity: Identity
) -> None:
    before = identity(USES["attribute"]).sha256
    (own_modules / "my_rules.py").write_text("LIMIT = 3\ndef cut(x):\n    return x\n")
    assert identity(USES["attribute"]).sha256 == before
    importlib.reload(importlib.import_module("my_rules"))
    assert identity(USES["attribute"]).sha256 != before


def test_installed_code_counts_by_its_distribution(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import yaml\ndef norm(row):\n    return yaml.safe_load(row)\n"
    before = identity(source)
    assert before.unresolved == ()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9.9")
    code_origin = importlib.import_module("pipeline_lib.chat.code_origin")
    code_origin._distribution.cache_clear()
    try:
        assert identity(source).sha256 != before.sha256
    finally:
        code_origin._distribution.cache_clear()


def test_identities_are_equal_in_two_processes_with_two_hash_seeds(tmp_path: Path) -> None:
    (tmp_path / "cell.py").write_text(
        BASE + "\nNAMES = {'b', 'a', 'c'}\nnorm.names = NAMES\n"
        "def known(row):\n    return row in {'x', 'y', 'z', 'w'}\nnorm.known = known\n"
    )
    code = (
        "import cell\nfrom pipeline_lib.chat.code_identity import code_identity\n"
        "from pipeline_lib.chat.source_store import DECIDE_WHAT_IS_STORED\n"
        "print([code_identity(x).sha256 for x in (cell.norm, DECIDE_WHAT_IS_STORED)])"
    )
    root = Path(__file__).parents[2]
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{tmp_path}:{root}"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "33")
    }
    assert len(found) == 1


def reached_functions() -> list[Any]:
    functions = code_identity(DECIDE_WHAT_IS_STORED).functions
    return [function for function in functions if function.__code__.co_filename != "<string>"]


def test_the_library_s_own_roots_can_be_pinned_down_and_reach_what_decides() -> None:
    found = code_identity(DECIDE_WHAT_IS_STORED)
    assert found.unresolved == ()
    names = {function.__qualname__ for function in found.functions}
    assert {"check_result", "best_paths", "conversation_bytes", "encode_part", "sample"} < names
    assert {"StoreWriter._take", "PickedRows.block", "side_of", "side", "identity"} < names


@pytest.mark.parametrize("function", reached_functions(), ids=lambda f: f.__qualname__)
def test_an_edit_of_any_library_function_that_is_reached_changes_the_key(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = code_identity(DECIDE_WHAT_IS_STORED).sha256
    code = function.__code__
    edited = code.replace(co_code=code.co_code + code.co_code[-2:])  # one more return
    monkeypatch.setattr(function, "__code__", edited)
    assert code_identity(DECIDE_WHAT_IS_STORED).sha256 != before


def test_an_edit_of_a_library_function_that_is_not_reached_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = code_identity(DECIDE_WHAT_IS_STORED).sha256
    monkeypatch.setattr(normalize.check_rejections, "__code__", (lambda name, report: 1).__code__)
    assert code_identity(DECIDE_WHAT_IS_STORED).sha256 == before


def test_a_changed_constant_of_the_library_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_identity(DECIDE_WHAT_IS_STORED).sha256
    monkeypatch.setattr(store_progress, "PART_ROWS", 19_999)
    assert code_identity(DECIDE_WHAT_IS_STORED).sha256 != before
