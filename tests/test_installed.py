"""The package installs, and a training script elsewhere imports all it needs from the wheel."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from corpora import small_recipe

from pipeline_lib import prepare

ROOT = Path(__file__).parent.parent
SCRIPT = """
import sys
from pipeline_lib import BatchOrder, ShardedTokenDataset, SFTDataset, load_tokenizer, loader
import pipeline_lib
data = ShardedTokenDataset(sys.argv[1], "train", 16)
x, y = next(iter(loader(data, 4, seed=1)))
print(pipeline_lib.__file__, tuple(x.shape), x.dtype, (x[:, 1:] == y[:, :-1]).all().item())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the wheel, as ``pip`` would put them."""
    root = tmp_path_factory.mktemp("wheel")
    source = root / "source"
    left_out = shutil.ignore_patterns(".*", "data", "tests", "benchmarks", "build", "__pycache__")
    shutil.copytree(ROOT, source, ignore=left_out)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*build, str(source), "-w", str(root)], check=True, capture_output=True)
    with zipfile.ZipFile(next(root.glob("*.whl"))) as wheel:
        wheel.extractall(root / "site")
    return root / "site"


def test_the_wheel_holds_every_module_and_the_marker_for_type_checkers(installed: Path) -> None:
    def modules(root: Path) -> set[str]:
        return {p.relative_to(root).as_posix() for p in (root / "pipeline_lib").rglob("*.py")}

    assert modules(installed) == modules(ROOT)
    assert (installed / "pipeline_lib" / "py.typed").exists()
    assert (installed / "download_data.py").exists()
    assert not (installed / "tests").exists() and not (installed / "benchmarks").exists()


def test_a_training_script_in_another_folder_reads_what_was_published(
    installed: Path, tmp_path: Path
) -> None:
    prepare(small_recipe(tmp_path), tmp_path / "shards")
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "train.py", str(tmp_path / "shards")],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(installed))
    assert done.stdout.strip().endswith("(4, 16) torch.int64 True")


def test_installed_it_keeps_data_in_the_folder_it_is_called_from(
    installed: Path, tmp_path: Path
) -> None:
    code = "import os, download_data; print(download_data.DATA_DIR, os.environ['HF_HOME'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{tmp_path / 'data'} {tmp_path / 'data' / '.hf_cache'}\n", done.stderr
