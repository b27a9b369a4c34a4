"""What is changed in a source, and what is left alone."""

import ast

import pytest

from tests.mutants.operators import OPERATORS, changes


def lines(source: str) -> set[str]:
    return {change.new for change in changes(source.encode())}


EXAMPLES = {
    "comparison": ("x = a >= b", "x = (a > b)"),
    "and for or": ("x = a and b", "x = (a or b)"),
    "not": ("x = not a", "x = (a)"),
    "sign": ("x = a + 1", "x = (a - 1)"),
    "constant": ("x = a[1:]", "x = a[2:]"),
    "all for any": ("x = all(a)", "x = (any(a))"),
    "order": ("x = sorted(a, key=b)", "x = (sorted(a))"),
    "swapped arguments": ("x = f(a, b.c)", "x = (f(b.c, a))"),
    "dropped statement": ("sync_folder(a)", "pass"),
    "break for continue": ("while a: break", "while a: continue"),
    "branch not taken": ("if a: f = 1", "if False: f = 1"),
    "nothing returned": ("def f(): return a", "def f(): return None"),
    "dropped part": ("x = {'a': 1, 'b': 2}", "x = ({'b': 2})"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_kind_of_change_is_made(name: str) -> None:
    source, expected = EXAMPLES[name]
    found = {change.new for change in changes(source.encode()) if change.operator == name}
    assert expected in found


@pytest.mark.parametrize(
    "source",
    [
        '"""Doc."""',
        'if a: raise ValueError(f"{a + 1} is above {b and c}", not a)',
        '_log.warning("%s", a + 1)',
        'x = f"{a + 1}"',
        "def __str__(self): return a + 1",
        "BLOCK = 1 << 20",
        "def f(mode=0o600, size=64 << 10, every=4_096): pass",
        "file.close()",
        "_close(x)",
        "x: Literal[1] = y",
        "z = zip(a(), b(), strict=True)",
    ],
)
def test_messages_annotations_and_tuning_are_left_alone(source: str) -> None:
    assert lines(source) <= {"if a: pass"}


def test_a_refusal_a_counter_and_a_caught_error_can_be_forgotten() -> None:
    assert "if a: pass" in lines("if a: raise ValueError('no')")
    assert "pass" in lines("count += 1")
    assert "except ((B,)): pass" in lines("try: f()\nexcept (A, B): pass")


def test_a_change_is_made_at_its_place_also_behind_letters_of_several_bytes() -> None:
    source = 'x = "é語" if a < b else 1  # ü\ny = a < b\n'
    for change in changes(source.encode()):
        changed = change.applied(source.encode()).decode()
        ast.parse(changed)
        assert changed.count("\n") == 2 and "# ü" in changed
    assert {"y = (a <= b)"} < lines(source)


def test_no_two_changes_are_the_same() -> None:
    source = b"x = max(a + 1, sorted(b)[0])\nif not x and x > 2: f(x, a)\n"
    found = [change.applied(source) for change in changes(source)]
    assert len(set(found)) == len(found) > 8 and source not in found
