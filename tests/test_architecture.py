"""The package has the shape it says it has, and a planted fault of each kind is found."""

import shutil
from pathlib import Path

import pytest
from architecture import CHECKS, Check, Package

ROOT = Path(__file__).parent.parent / "pipeline_lib"
FACE = '"""A face."""\n\nfrom pipeline_lib.training import loader\n'


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_package_passes(check: Check) -> None:
    assert check(Package(ROOT)) == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    target = tmp_path / "pipeline_lib"
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


SMALL = '"""A module."""\n\n\n'
PLANTED = {
    "storage/shards.py": (
        SMALL + "from pipeline_lib.corpus import shards\n",
        {"no_module_imports_upwards": "storage.shards imports corpus.shards"},
    ),
    "chat/shards.py": (
        SMALL + 'def show(x: int) -> None:\n    """Show."""\n    print(x)\n',
        {"nothing_is_printed_or_asserted": "chat.shards prints"},
    ),
    "corpus/folders.py": (
        SMALL + 'def put(x: str) -> None:\n    """Put."""\n    open(x, "w").write("")\n',
        {"only_storage_writes": "corpus.folders: open in line 6"},
    ),
    "corpus/lane_two.py": (
        SMALL + "import torch\n\n\ndef show(x):\n    return x\n",
        {
            "outside_things_have_their_addresses": "corpus.lane_two names torch",
            "heavy_libraries_wait_until_they_are_used": "corpus.lane_two loads torch",
            "everything_is_annotated": "corpus.lane_two.show: ['x']",
            "everything_public_is_described": "corpus.lane_two.show",
        },
    ),
    "chat/utils.py": (
        SMALL + 'class Recipe:\n    """Another."""\n\n\nprint("x")\n',
        {
            "names_say_what_a_thing_is": "chat.utils",
            "importing_does_no_work": "chat.utils: print('x')",
        },
    ),
    "kitchen/__init__.py": (SMALL, {"the_table_names_the_rooms_that_are_there": "kitchen"}),
    "hub/loop.py": (
        SMALL + "from pipeline_lib.hub import loop_two\nimport numpy as np\n\n"
        'X = np.random.default_rng()\nM = "<|pad|>"\n',
        {
            "randomness_is_raw_pcg64_at_its_addresses": "hub.loop: np.random.default_rng",
            "control_tokens_are_written_down_once": "hub.loop",
        },
    ),
    "hub/swallow.py": (
        SMALL + "try:\n    X = 1\nexcept Exception:\n    X = 2\nassert X\n",
        {"nothing_is_swallowed": "hub.swallow:6", "nothing_is_printed_or_asserted": "hub.swallow"},
    ),
    "training/maps.py": (
        SMALL + 'import numpy as np\n\nA = np.memmap("x", "u1", "r+")\n',
        {"memory_maps_are_read_only": "training.maps: line 6"},
    ),
}


@pytest.mark.parametrize("path", PLANTED)
def test_a_planted_fault_is_found(copy: Path, path: str) -> None:
    text, expected = PLANTED[path]
    (copy / path).parent.mkdir(exist_ok=True)
    (copy / path).write_text(text)
    if path == "hub/loop.py":
        (copy / "hub/loop_two.py").write_text(SMALL + "from pipeline_lib.hub import loop\n")
        assert no_circle(copy) == ["hub.loop", "hub.loop_two"]
    checks = {check.__name__: check for check in CHECKS}
    for name, said in expected.items():
        assert any(said in fault for fault in checks[name](Package(copy))), name


def no_circle(root: Path) -> list[str]:
    check = next(c for c in CHECKS if c.__name__ == "no_two_modules_import_each_other")
    return check(Package(root))


def test_a_rule_that_reads_the_clock_a_long_function_and_untyped_state_are_found(
    copy: Path,
) -> None:
    checks = {check.__name__: check for check in CHECKS}
    rules = copy / "chat" / "trees.py"
    rules.write_text(rules.read_text() + "\n\nimport time\n")
    assert checks["rules_have_no_effects"](Package(copy)) == ["chat.trees names time"]
    body = "    x = 1\n" * 50
    (copy / "chat" / "long.py").write_text(SMALL + f"def long() -> None:\n{body}")
    assert "chat.long.long: 51 lines" in checks["functions_and_files_stay_small"](Package(copy))
    (copy / "chat" / "loose.py").write_text(SMALL + "X: dict[str, Any]\n" * 15)
    assert len(checks["few_values_are_of_any_type"](Package(copy))) >= 15
