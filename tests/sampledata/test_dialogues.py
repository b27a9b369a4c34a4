"""Dialogues of the sample have the oddities of their data sets."""

import itertools

from sample_rows import column, rows

from pipeline_lib.sampledata.dialogues import spaced
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS


def test_wildchat_has_the_oddities_of_conversations() -> None:
    said = column("wildchat", "content")
    roles = column("wildchat", "role")
    flat = [content for turns in said for content in turns]
    assert None in flat and "" in flat and "  \n" in flat
    assert any(turns == [] for turns in said)
    assert any(turns[-1:] == ["user"] for turns in roles)
    assert any(turns[:1] == ["assistant"] for turns in roles)
    for side in ("user", "assistant"):
        assert any((side, side) in itertools.pairwise(turns) for turns in roles)
    user = "".join(
        str(t["content"])
        for r in rows("wildchat")
        for t in r["conversation"]
        if t["role"] == "user"
    )
    assert all(token in user for token in CONTROL_TOKENS)


def test_soda_has_lists_that_do_not_match_and_speakers_out_of_turn() -> None:
    found = rows("soda")
    lengths = {len(row["speakers"]) - len(row["dialogue"]) for row in found}
    assert lengths == {-1, 0, 1}
    assert any(a == b for row in found for a, b in itertools.pairwise(row["speakers"]))
    assert any(len(set(row["speakers"])) == 3 for row in found)


def test_lmsys_has_flagged_messages_and_rows_without_a_verdict() -> None:
    found = rows("lmsys")
    assert any(m["flagged"] for row in found for m in row["openai_moderation"] or ())
    assert any(row["openai_moderation"] is None for row in found)
    assert any(row["redacted"] for row in found)


def test_ultrachat_repeats_the_first_message_as_its_prompt() -> None:
    found = [row for row in rows("ultrachat") if row["messages"]]
    assert all(row["prompt"] == row["messages"][0]["content"] for row in found)


def test_dailydialog_is_cut_into_words_and_marks() -> None:
    found = [line for row in rows("dailydialog") for line in row["dialog"]]
    assert any(" ’ " in line for line in found) and any(" , " in line for line in found)
    assert all(line.endswith(" ") for line in found)
    assert {len(row["dialog"]) % 2 for row in rows("dailydialog")} == {0, 1}


def test_an_old_tokenizer_put_spaces_around_marks() -> None:
    assert spaced("It's late, isn't it?") == "It ’ s late , isn ’ t it ? "


def test_bst_has_lists_that_differ_by_one_and_scenes_without_an_opening() -> None:
    found = rows("bst")
    differ = {len(row["free_messages"]) - len(row["guided_messages"]) for row in found}
    assert differ == {-1, 0, 1}
    assert any(row["previous_utterance"] == [] for row in found)
