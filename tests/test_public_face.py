"""What the package offers: a pinned list of documented names, loaded when they are used."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pipeline_lib
from pipeline_lib import normalizers

ROOT = Path(__file__).parent.parent
NAMES = {
    *("BatchOrder", "CacheOptions", "Conversations", "DPODataset", "DatasetSpec", "FetchOptions"),
    *(
        "Mixture",
        "Normalized",
        "OpenedSources",
        "open_sources",
        "PipelineError",
        "PrepareOptions",
        "PretrainDataset",
    ),
    *("ProgressBars", "Recipe", "RetryPolicy", "SFTDataset", "ShardedTokenDataset"),
    *(
        "SizingParameters",
        "SourceRows",
        "Tokenizer",
        "check_choice",
        "check_vocab_size",
        "choose_datasets",
    ),
    *("load_tokenizer", "loader", "mix", "normalize", "open_rows", "prepare", "prune", "render"),
    *("run_preflight", "stored_caches", "train_tokenizer", "verify"),
    *("chat_format", "named_tokenizer", "reproduce"),
}
HELPERS = {
    *("Pair", "Reject", "Turns", "assistant", "canonical_thoughts", "check_result", "cut_bytes"),
    *("detokenised", "dialogue", "document", "first_answers", "flagged", "interleaved"),
    *("noncommercial", "paired", "preference", "ranked", "read_turns", "thought", "tidy"),
    *("transcript", "user", "wrong_answer"),
}
FACES = [(pipeline_lib, name) for name in sorted(NAMES)]
FACES += [(normalizers, name) for name in sorted(HELPERS)]


def test_the_names_that_are_offered_are_these() -> None:
    assert set(pipeline_lib.__all__) == NAMES and len(pipeline_lib.__all__) == len(NAMES)
    assert set(normalizers.__all__) == HELPERS
    assert set(dir(pipeline_lib)) >= NAMES


def test_type_checkers_see_the_names_that_are_offered() -> None:
    tree = ast.parse(Path(pipeline_lib.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    shown = {
        f"{node.module}:{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    places = pipeline_lib._PLACE_OF.items()
    assert shown == {f"pipeline_lib.{place}:{name}" for name, place in places}


def test_no_offered_name_is_a_room_or_a_module() -> None:
    folder = Path(pipeline_lib.__file__).parent
    assert not {path.stem for path in folder.iterdir()} & NAMES


@pytest.mark.parametrize(("module", "name"), FACES, ids=lambda value: str(value)[:30])
def test_each_offered_name_is_there_and_documented(module: Any, name: str) -> None:
    found = getattr(module, name)
    text = inspect.getdoc(found) or ""
    assert text.strip().endswith((".", "]", "``"))
    assert not text.startswith(f"{name}(")  # what a dataclass writes when nobody did


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'prepair'"):
        pipeline_lib.prepair  # noqa: B018


def test_importing_the_package_loads_no_library() -> None:
    code = "import sys, pipeline_lib; print(sorted(set(sys.modules) & {'torch', 'datasets',"
    code += "'transformers', 'numpy', 'pyarrow', 'huggingface_hub', 'tokenizers', 'gigatoken'}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("name", ["prepare", "normalize", "mix", "Recipe", "run_preflight"])
def test_only_datasets_load_torch(name: str) -> None:
    code = f"import sys; from pipeline_lib import {name}; print({{'torch', 'datasets',"
    code += "'transformers'} & set(sys.modules) or 'none')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "none\n", done.stderr


def imported(code: str) -> set[str]:
    return {
        node.module
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module
    } | {
        alias.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import)
        for alias in node.names
    }


def test_the_notebook_and_the_readme_import_from_the_faces_alone() -> None:
    import re

    import notebook

    cells = [cell.source for cell in notebook.cells() if cell.cell_type == "code"]
    text = "\n".join(cell.source for cell in notebook.cells() if cell.cell_type != "code")
    text += (ROOT / "README.md").read_text()
    code = [*cells, *re.findall(r"```python\n(.*?)```", text, re.S)]
    found = {module for source in code for module in imported(source)}
    ours = {module for module in found if module.startswith(("pipeline_lib", "download_data"))}
    assert ours == {"pipeline_lib", "pipeline_lib.normalizers", "download_data"}
