"""The notebook: committed clean, runs whole, runs twice, and survives a killed kernel."""

import ast
import hashlib
import json
import re
import shutil
from pathlib import Path

import notebook
import pytest
from chat_templates import ORIGINAL
from corpora import EOS, texts, tokenizer_file
from loopback_hub.publish import byte_level_tokenizer

from download_data import DATASETS
from pipeline_lib.machine import folder_bytes
from pipeline_lib.tokenization.tokenizer import load_tokenizer


def contents(data_dir: Path) -> dict[str, str]:
    """SHA-256 of all token files and shards below a data folder, and what was counted of them."""
    kept = (".bin", ".npy", ".arrow", "tokenizer.json")
    found = {path: path.read_bytes() for path in data_dir.rglob("*") if path.name.endswith(kept)}
    for path in (
        p for k in ("pretrain", "sft", "dpo") for p in data_dir.glob(f"cache/{k}-*/meta*")
    ):
        record = json.loads(path.read_bytes())
        found[path] = json.dumps([record["done"], record["details"]]).encode()
    return {
        path.relative_to(data_dir).as_posix(): hashlib.sha256(data).hexdigest()
        for path, data in found.items()
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A data folder made by one whole run, and what that run printed."""
    data_dir = tmp_path_factory.mktemp("undisturbed")
    return data_dir, notebook.run(notebook.small(data_dir, TRAINING_STEPS=12))


def test_the_notebook_is_committed_without_outputs_and_execution_counts() -> None:
    cells = [cell for cell in notebook.cells() if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


def test_every_cell_has_a_readable_name_and_is_short() -> None:
    for cell in notebook.cells():
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", cell.id)
        assert cell.source.count("\n") < (45 if cell.id == "imports" else 20), cell.id


def test_the_notebook_defines_no_class_and_catches_nothing() -> None:
    code = [cell.source for cell in notebook.cells() if cell.cell_type == "code"]
    nodes = [node for source in code for node in ast.walk(ast.parse(source))]
    assert not [node for node in nodes if isinstance(node, ast.ClassDef | ast.Try)]
    assert not [source for source in code if re.search(r"^[!%]|sys\.path", source, re.M)]


def test_there_is_one_normalizer_for_each_registered_source() -> None:
    assert set(notebook.normalizers()) == set(DATASETS)


def test_normalizers_are_at_most_twelve_lines() -> None:
    for cell in notebook.cells():
        if "normalizer" in cell.metadata.get("tags", []):
            assert cell.source.count("\n") < 12


def test_a_vocabulary_that_can_not_be_stops_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="vocab_size is 100; 261 is the smallest"):
        notebook.cells_until("normalize", tmp_path, VOCAB_SIZE=100)
    assert not list(tmp_path.iterdir())


def test_the_whole_notebook_runs_and_every_loss_falls(undisturbed: tuple[Path, str]) -> None:
    data_dir, text = undisturbed
    assert "all is well" in text
    losses = re.findall(r"^(\w+) +([\d.]+) -> ([\d.]+)$", text, re.M)
    assert [name for name, *_ in losses] == ["shards", "pretrain", "sft", "dpo"]
    assert all(float(last) < float(first) for _, first, last in losses)
    assert not list(data_dir.glob("shards/*.incomplete"))


def test_the_look_ahead_says_what_disk_the_run_then_takes(undisturbed: tuple[Path, str]) -> None:
    data_dir, text = undisturbed
    assert needed(text) == pytest.approx(folder_bytes(data_dir), rel=0.2)


def needed(text: str) -> float:
    """Bytes of disk that the look ahead printed."""
    found = re.search(r"^disk +([\d.]+) (B|KB|MB) at peak", text, re.M)
    assert found is not None, text
    return float(found[1]) * {"B": 1, "KB": 1_000, "MB": 1_000_000}[found[2]]


def test_a_second_run_reuses_everything_and_changes_no_byte(undisturbed: tuple[Path, str]) -> None:
    data_dir, _ = undisturbed
    before = contents(data_dir)
    text = notebook.run(notebook.small(data_dir, until="dpo-dataset"))
    assert needed(text) == 0
    assert "already complete" in text
    assert "already there" in text
    assert "built" not in text
    assert contents(data_dir) == before


def test_a_run_killed_twice_goes_on_and_ends_in_the_same_bytes(
    undisturbed: tuple[Path, str], tmp_path: Path
) -> None:
    data_dir, made = tmp_path / "data", ("shards", "tokenizer-*", "pretrain-*", "sft-*", "dpo-*")
    shutil.copytree(undisturbed[0], data_dir, ignore=shutil.ignore_patterns(*made))
    often = {"SAVE_EVERY_SECONDS": 0.02, "until": "dpo-dataset"}
    deaths = [notebook.kill_in("shards", 1_500), notebook.kill_in("sft", 1_500), ""]
    runs = [notebook.small(data_dir, extra=death, **often) for death in deaths]
    first, second, last = notebook.run_in_turn(runs, tmp_path)
    assert [first.status, second.status, last.status] == [-9, -9, 0], last.text
    assert went_on_at(r"lane 0 goes on at row .*, ([\d,]+) rows visited", second.text) > 0
    assert went_on_at(r"sft-\w+: resuming at conversation ([\d,]+)", last.text) > 0
    assert contents(data_dir) == contents(undisturbed[0])


def model_folder(place: Path) -> Path:
    """A tokenizer as a model's repository has it, with a template of other people."""
    tokens = (EOS, "<|im_start|>", "<|im_end|>")
    data = byte_level_tokenizer(texts(50), vocab_size=400, special_tokens=tokens)
    template = ORIGINAL["qwen2_5"].read_text()
    settings = {"eos_token": "<|im_end|>", "pad_token": EOS, "chat_template": template}
    return tokenizer_file(place / "model", data, **settings).parent


@pytest.mark.filterwarnings("ignore:FigureCanvas")
def test_a_run_takes_the_tokenizer_that_it_names(
    undisturbed: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = Path(shutil.copytree(undisturbed[0], tmp_path / "data"))
    (kept,) = data_dir.glob("cache/tokenizer-*")
    again = notebook.cells_until(
        "tokenizer-train", data_dir, TOKENIZER=str(kept), WEIGHTS={"soda": 2}
    )
    assert again["tokenizer"] == load_tokenizer(kept)
    capsys.readouterr()
    few = {"MAX_LEN": 256, "TRAIN_TOKENS": 40_000, "WEIGHTS": dict.fromkeys(DATASETS, 0)}
    few["WEIGHTS"] |= {"oasst2": 1}
    model = model_folder(tmp_path)
    names = notebook.cells_until("dpo-look", data_dir, TOKENIZER=str(model), **few)
    text = capsys.readouterr().out
    assert names["metadata"]["tokenizer"]["sha256"] == load_tokenizer(model).sha256
    assert [*data_dir.glob("cache/tokenizer-*")] == [kept]
    assert f"documents end in {EOS}: {model}" in text
    row, trained_on = re.findall(r"^(?:the row|trained on): +'(.*)'$", text, re.M)
    assert row.startswith(r"<|im_start|>system\nYou are Qwen")
    assert trained_on.endswith("<|im_end|>")
    assert "<|im_start|>" not in trained_on
    assert re.search(r"^tokenizer +0 B ", text, re.M)


def went_on_at(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, text
    return int(found[1].replace(",", ""))
