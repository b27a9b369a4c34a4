"""The buffer of training texts: nothing is lost, long runs are cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.tokenization.training_texts import LONGEST, TrainingTexts, cut_runs


def run_lengths(text: str) -> list[int]:
    return [len(list(group)) for _, group in itertools.groupby(text, str.isspace)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", " ", "\n", "é"]), st.integers(0, 3 * LONGEST)), max_size=6
    )
)
def test_long_runs_are_cut_and_nothing_is_lost(parts: list[tuple[str, int]]) -> None:
    text = "".join(letter * times for letter, times in parts)
    pieces = cut_runs(text)
    assert "".join(pieces) == text
    assert all(run <= LONGEST for piece in pieces for run in run_lengths(piece))
    assert len(pieces) == 1 or max(run_lengths(text)) > LONGEST


@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from(["a", "\u00e9", "\u65e5", "\x7f", " ", "\n", "\x1f", "\u3000", "\xa0"]),
            st.integers(0, LONGEST + 2),
        ),
        max_size=5,
    )
)
def test_a_corpus_cuts_its_texts_as_they_would_be_cut_alone(parts: list[tuple[str, int]]) -> None:
    text = "".join(character * count for character, count in parts)
    corpus = TrainingTexts([text, "next"])
    assert corpus.cuts == len(cut_runs(text)) - 1
    ended = [piece.encode() + b"\xff" for piece in [*cut_runs(text), "next"]]
    assert corpus.data == b"".join(ended)


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(1, 200))
def test_the_corpus_gives_every_piece_back_in_blocks_of_any_size(
    given_texts: list[str], size: int
) -> None:
    corpus = TrainingTexts(given_texts)
    pieces = [piece.decode() for block in corpus.blocks(size) for piece in block]
    assert pieces == given_texts
    assert corpus.start(size) == [text.encode() for text in given_texts][: len(corpus.start(size))]
