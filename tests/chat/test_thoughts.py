"""Think blocks: one at the start, in any spelling; every other order of marks has a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.thoughts import (
    MISPLACED,
    NESTED,
    NO_END,
    NO_START,
    SEVERAL,
    TAGS,
    block_fault,
    canonical,
    read_block,
)


@pytest.mark.parametrize("opening", TAGS)
def test_a_block_of_any_spelling_is_split_from_its_answer(opening: str) -> None:
    closing = TAGS[opening]
    block = read_block(f" {opening}why{closing}Yes.")
    assert (block.reasoning, block.answer, block.implied, block.fault) == ("why", "Yes.", False, "")
    implied = read_block(f"why{closing}Yes.")
    assert (implied.reasoning, implied.answer, implied.implied) == ("why", "Yes.", True)
    assert canonical(block) == canonical(implied) == "<think>\nwhy\n</think>\n\nYes."


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("<think>why", NO_END),
        ("<think>why</thinking>Yes.", NO_END),
        ("Yes. <think>why", NO_END),
        ("Yes. <think>why</think>", MISPLACED),
        ("<think>a<think>b</think>c</think>Yes.", NESTED),
        ("<think>a</think>Yes.</think>", SEVERAL),
        ("<think>a</think><think>b</think>Yes.", SEVERAL),
        ("a</think>b</think>Yes.", SEVERAL),
    ],
)
def test_marks_that_are_not_one_block_have_a_name(content: str, fault: str) -> None:
    assert read_block(content).fault == fault
    assert block_fault(content) == fault


PIECES = st.lists(st.sampled_from(["<think>", "</think>", "a", "\n", "b "]), max_size=7)


@given(PIECES)
def test_no_mark_gets_into_reasoning_or_answer(pieces: list[str]) -> None:
    content = "".join(pieces)
    block = read_block(content)
    marks = [piece for piece in pieces if "think" in piece]
    well = marks in ([], ["<think>", "</think>"], ["</think>"])
    at_start = marks[:1] != ["<think>"] or content.lstrip().startswith("<think>")
    assert (block.fault == "") == (well and at_start)
    if not block.fault:
        assert "think>" not in f"{block.reasoning} {block.answer}"
        assert block_fault(content) == (NO_START if marks == ["</think>"] else "")
