"""The README says what is true: commands, flags, files and names in it exist."""

import re
import subprocess
import sys

import notebook
import pytest

import pipeline_lib

README = (notebook.ROOT / "README.md").read_text()


def bash_lines() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", README, re.S)
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]


def test_each_of_the_two_commands_makes_its_environment_and_is_one_line() -> None:
    run, test = [line for line in bash_lines() if line.startswith("python3 -m venv")]
    assert "pip install -r requirements.txt" in run
    assert "pip install -r requirements.txt" in test
    assert "executed.ipynb full_llm_pipeline.ipynb" in run
    assert "pytest" in test


def test_ci_takes_the_test_command_from_this_page() -> None:
    script = (notebook.ROOT / ".ci" / "run").read_text()
    assert "README.md" in script
    assert "pip install -r requirements.txt" not in script


@pytest.mark.parametrize("module", ["pipeline_lib.prepare_data", "download_data"])
def test_flags_that_are_shown_exist(module: str) -> None:
    run = [sys.executable, "-m", module, "--help"]
    known = subprocess.run(
        run, cwd=notebook.ROOT, capture_output=True, text=True, check=True
    ).stdout
    script = module.split(".")[-1]
    lines = [line for line in bash_lines() if script in line and " verify " not in line]
    assert lines
    for flag in re.findall(r"--[a-z][a-z-]+", " ".join(lines)):
        assert flag in known


def test_files_and_folders_of_the_tree_exist() -> None:
    tree = re.search(r"## The tree\n\n```\n(.*?)```", README, re.S)
    assert tree is not None
    for line in tree[1].splitlines():
        inside = line.startswith("    ")
        root = notebook.ROOT / ("pipeline_lib" if inside else "")
        names = [re.split(r"  +", line.strip())[0]]
        for name in names:
            path = root / name
            assert path.exists() or path.with_suffix(".py").exists(), name


def test_imports_that_are_shown_work() -> None:
    for code in re.findall(r"```python\n(.*?)```", README, re.S):
        imports = [line for line in code.splitlines() if line.startswith("from ")]
        assert imports
        exec("\n".join(imports), {})


def test_the_version_is_stated_once() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", pipeline_lib.__version__)
    assert 'dynamic = ["version"' in (notebook.ROOT / "pyproject.toml").read_text()
