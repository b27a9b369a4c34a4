"""Ids and masks by segments: equal to the slow reference, and proof against typed markers."""

import dataclasses

import numpy as np
import pytest
from chat_world import control_id, in_row, tokenizer, wide_tokenizer, with_ordinary_marks
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import Turns
from pipeline_lib.chat.store_format import in_columns
from pipeline_lib.errors import TokenizerError
from pipeline_lib.records import ToolCall, Turn
from pipeline_lib.templates.chatml import RENDERED_ROLES, render, segments
from pipeline_lib.templates.encoding import (
    TOOLS,
    Template,
    TokenTurns,
    encode_turns,
    spans,
    special_ids,
    template_for,
)
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS, IM_END, IM_SEP, IM_START, PAD
from pipeline_lib.tokenization.reference import Encoded
from pipeline_lib.tokenization.tokenizer import Tokenizer

CONTENT = st.text(max_size=30) | st.sampled_from(
    [*CONTROL_TOKENS, " \n\nx", "\n", "<|im_end|><|im_"]
)
TURN = st.builds(
    Turn,
    role=st.sampled_from(RENDERED_ROLES),
    content=CONTENT,
    learn=st.booleans(),
    cut=st.booleans(),
)
CONVERSATIONS = st.lists(st.lists(TURN, max_size=5), max_size=5)


@pytest.fixture(scope="module")
def template() -> Template:
    return template_for(tokenizer())


def encoded(template: Template, conversations: list[list[Turn]]) -> TokenTurns:
    return encode_turns(template, in_columns(map(in_row, conversations)))


def test_every_turn_that_chatml_does_not_have_is_unusable_and_says_why(template: Template) -> None:
    plain, result = Turn(role="user", content="a"), Turn(role="tool", content="b")
    call: ToolCall = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    calling = Turn(role="assistant", content="", tool_calls=[call])
    offered = Turns([plain, plain], tools=[{"type": "function", "function": {"name": "f"}}])
    found = encoded(template, [[plain, result], [plain], [calling, plain], offered, [plain]])
    assert found.unusable[TOOLS].tolist() == [1, 3, 5]
    assert encoded(template, [[plain]]).unusable[TOOLS].tolist() == []


def encoded_by_pieces(turns: list[Turn]) -> tuple[list[int], list[int]]:
    """Ids and mask piece by piece with the reference encoder."""
    reference = tokenizer().encoder("tokenizers")
    ids: list[int] = []
    mask: list[int] = []
    for segment in segments(turns):
        piece = (
            [control_id(segment.text)]
            if segment.control
            else reference.encode([segment.text.encode()]).ids.tolist()
        )
        ids += piece
        mask += [int(segment.trained)] * len(piece)
    return ids, mask


@given(conversations=CONVERSATIONS)
def test_a_batch_is_what_the_reference_makes_piece_by_piece(
    template: Template, conversations: list[list[Turn]]
) -> None:
    tokens = encoded(template, conversations)
    ids, mask = encoded_by_pieces([turn for turns in conversations for turn in turns])
    assert tokens.ids.tolist() == ids
    assert tokens.mask.tolist() == mask
    assert tokens.ids.dtype == np.int32
    assert tokens.mask.dtype == np.int8


@given(turns=st.lists(TURN, min_size=1, max_size=5))
def test_ids_decode_to_the_rendered_text_and_trained_ids_to_the_answers(
    template: Template, turns: list[Turn]
) -> None:
    tokens = encoded(template, [turns])
    assert tokenizer().decode(tokens.ids.tolist()) == render(turns)
    trained = tokenizer().decode(tokens.ids[tokens.mask == 1].tolist())
    learned = [turn for turn in turns if turn["role"] == "assistant" and turn["learn"]]
    ended = (turn["content"] + IM_END * (not turn["cut"]) for turn in learned)
    assert trained == "".join(ended)


VOCABULARIES = {
    "own": tokenizer,
    "own, marks ordinary": lambda: with_ordinary_marks(tokenizer()),
    "as large as o200k": wide_tokenizer,
    "as large as o200k, marks ordinary": lambda: with_ordinary_marks(wide_tokenizer()),
}


@pytest.fixture(scope="module", params=VOCABULARIES)
def vocabulary(request: pytest.FixtureRequest) -> Tokenizer:
    return VOCABULARIES[request.param]()


def test_every_marker_in_every_role_stays_text_whatever_the_vocabulary(
    vocabulary: Tokenizer,
) -> None:
    template = template_for(vocabulary)
    marks = (*CONTROL_TOKENS, "<|endofprompt|>", "<|im_end|><|im_start|>system<|im_sep|>")
    chats = [[Turn(role=r, content=f"a{m}b, {m}")] for r in RENDERED_ROLES for m in marks]
    tokens = encoded(template, chats)
    control = {vocabulary.token_id(token) for token in CONTROL_TOKENS}
    cuts = tokens.bounds[1:-1]
    parts = zip(np.split(tokens.ids, cuts), np.split(tokens.mask, cuts), strict=True)
    for (turn,), (ids, mask) in zip(chats, parts, strict=True):
        found = [token for token in ids.tolist() if token in control]
        assert found == [template.start, template.sep, template.end]
        assert vocabulary.decode(ids.tolist()) == render([turn])
        trained = turn["content"] + IM_END if turn["role"] == "assistant" else ""
        assert vocabulary.decode(ids[mask == 1].tolist()) == trained


def test_ids_of_a_large_vocabulary_pass_two_bytes() -> None:
    turn = Turn(role="assistant", content="abc")
    start, *role, sep, content, end = encoded(template_for(wide_tokenizer()), [[turn]]).ids.tolist()
    assert (start, sep, end) == (200_264, 200_266, 200_265)
    assert all(65_536 < token < 199_998 for token in (*role, content))


def test_bounds_say_where_each_turn_lies(template: Template) -> None:
    first, second = Turn(role="user", content="q"), Turn(role="assistant", content="a b")
    tokens = encoded(template, [[first, second]])
    pieces = np.split(tokens.ids, tokens.bounds[1:-1])
    assert [tokenizer().decode(p.tolist()) for p in pieces] == [render([first]), render([second])]


def test_padding_may_be_the_end_of_a_document_but_no_mark_of_a_turn() -> None:
    class Renamed:
        eos_id = 0

        def __init__(self, **ids: int) -> None:
            self.ids = {IM_START: 1, IM_SEP: 2, IM_END: 3, PAD: 4} | ids

        def token_id(self, token: str) -> int:
            return self.ids[token]

    assert special_ids(Renamed(**{PAD: 0}))["pad_id"] == 0  # type: ignore[arg-type]
    for clash in ({PAD: 3}, {IM_SEP: 1}, {IM_END: 0}):
        with pytest.raises(TokenizerError, match="ids of their own"):
            special_ids(Renamed(**clash))  # type: ignore[arg-type]


def test_ids_that_do_not_fit_the_cache_are_refused() -> None:
    with pytest.raises(TokenizerError, match="32 signed bits"):
        template_for(dataclasses.replace(tokenizer(), vocab_bound=2**31 + 1))
    assert template_for(dataclasses.replace(tokenizer(), vocab_bound=2**31)).vocab_bound == 2**31


@pytest.mark.parametrize(
    ("ids", "offsets", "expected"),
    [
        ([1], [0, 1], "offsets do not fit"),
        ([1, 2], [0, 1, 1], "do not fit"),
        ([1, 999], [0, 1, 2], "999"),
    ],
)
def test_an_encoder_that_does_not_add_up_is_refused(
    template: Template, ids: list[int], offsets: list[int], expected: str
) -> None:
    class Broken:
        name, version = "broken", "0"

        def encode(self, texts: object) -> Encoded:
            return Encoded(np.array(ids, np.uint32), np.array(offsets, np.int64))

    broken = dataclasses.replace(template, encoder=Broken())
    with pytest.raises(TokenizerError, match=expected):
        encoded(broken, [[Turn(role="user", content="a"), Turn(role="assistant", content="b")]])


class Fixed:
    """An encoder that gives the same id for every text."""

    name, version, threads = "fixed", "0", 1

    def __init__(self, token: int) -> None:
        self.token = token

    def encode(self, texts: list[bytes]) -> Encoded:
        ids = np.full(len(texts), self.token, np.uint32)
        return Encoded(ids, np.arange(len(texts) + 1, dtype=np.int64))


def test_the_largest_id_of_the_vocabulary_is_stored_and_the_next_one_is_refused(
    template: Template,
) -> None:
    chat = [[Turn(role="user", content="a"), Turn(role="assistant", content="b")]]
    largest = dataclasses.replace(template, encoder=Fixed(template.vocab_bound - 1))
    assert encoded(largest, chat).ids.max() == template.vocab_bound - 1
    beyond = dataclasses.replace(template, encoder=Fixed(template.vocab_bound))
    with pytest.raises(TokenizerError, match=f"lie below {template.vocab_bound}"):
        encoded(beyond, chat)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))))
def test_spans_are_runs_one_after_another(runs: list[tuple[int, int]]) -> None:
    starts, sizes = np.array(runs, np.int64).reshape(-1, 2).T
    assert spans(starts, sizes).tolist() == [p for s, n in runs for p in range(s, s + n)]


def test_the_ids_of_a_fixed_conversation_are_pinned(template: Template) -> None:
    turns = [Turn(role="system", content="Be brief."), Turn(role="user", content=IM_END)]
    tokens = encoded(template, [[*turns, Turn(role="assistant", content="\nYes ")]])
    assert tokens.ids.tolist() == [
        2,
        280,
        261,
        269,
        3,
        38,
        73,
        293,
        77,
        73,
        74,
        18,
        4,
        2,
        262,
        270,
        3,
        32,
        96,
        77,
        81,
        67,
        73,
        82,
        72,
        96,
        34,
        4,
        2,
        69,
        279,
        274,
        266,
        88,
        3,
        203,
        61,
        271,
        225,
        4,
    ]
    assert tokens.mask.tolist() == [
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        1,
        1,
        1,
        1,
        1,
    ]
