"""How much of each source: the weighted index, its texts, and the report."""

from collections import Counter
from pathlib import Path

import pytest
from chat_world import numbered_chat, stored_conversations, tool_chat, turns

from pipeline_lib.chat.mixture import mix
from pipeline_lib.chat.store import Conversations
from pipeline_lib.errors import MissingSources
from pipeline_lib.templates.chatml import render


@pytest.fixture
def train(tmp_path: Path) -> Conversations:
    sources = {
        "one": [numbered_chat(i) for i in range(4)],
        "empty": [],
        "zero": [numbered_chat(9)] * 5,
    }
    return stored_conversations(tmp_path, sources).train


def test_weights_decide_how_often_each_row_comes(train: Conversations) -> None:
    mixture = mix(train, {"one": 2.5, "empty": 3, "zero": 0}, seed=1)
    times = Counter(mixture.texts)
    assert set(times.values()) == {2, 3}
    assert len(mixture.texts) == 10


@pytest.mark.parametrize(("weight", "rows"), [(0, 0), (0.3, 3), (1, 10), (2.5, 25)])
def test_a_weight_is_whole_repeats_and_a_part_of_one_more(
    tmp_path: Path, weight: float, rows: int
) -> None:
    sources = {"one": [numbered_chat(i) for i in range(10)], "other": [numbered_chat(99)]}
    texts = mix(stored_conversations(tmp_path, sources).train, {"one": weight}, seed=1).texts
    times = Counter(text for text in texts if text != render(numbered_chat(99)))
    assert times.total() == rows == len(texts) - 1
    counts = {times[render(numbered_chat(i))] for i in range(10)}
    assert counts == {int(weight), int(weight + 0.9)}


def test_empty_and_weightless_sources_are_listed_with_nothing(train: Conversations) -> None:
    table = mix(train, {"one": 1, "empty": 3, "zero": 0}, seed=1).report()
    assert table.column("source") == ["one", "empty", "zero"]
    assert table.column("rows") == [4, 0, 5]
    assert table.column("rows after") == [4, 0, 0]
    assert table.column("share") == ["100.0%", "0.0%", "0.0%"]


def test_a_source_without_a_weight_counts_once(train: Conversations) -> None:
    assert len(mix(train, {}, seed=1).texts) == 9


def test_an_absent_source_is_an_error_unless_optional(train: Conversations) -> None:
    with pytest.raises(ValueError, match="weights name absent"):
        mix(train, {"absent": 1}, seed=1)
    assert len(mix(train, {"absent": 1}, seed=1, optional=["absent"]).texts) == 9


def test_a_mixture_of_nothing_is_refused(train: Conversations) -> None:
    with pytest.raises(ValueError, match="nothing is left"):
        mix(train, {"one": 0, "zero": 0}, seed=1)


def test_characters_are_reported_before_and_after(tmp_path: Path) -> None:
    train = stored_conversations(tmp_path, {"a": [turns("é", "aa")], "b": [turns("1", "2")]}).train
    table = mix(train, {"a": 2}, seed=1).report({"a": {"tokens": 20, "trained": 9}})
    assert table.column("characters") == [3, 2]
    assert table.column("characters after") == [6, 2]
    assert table.column("tokens") == [20, 0]
    assert table.column("trained") == [9, 0]


def test_texts_are_rendered_and_read_like_a_sequence(train: Conversations) -> None:
    mixture = mix(train, {"zero": 0}, seed=1)
    expected = [render(train[int(row)]) for row in mixture.index]
    assert list(mixture.texts) == expected
    assert mixture.texts[-1] == expected[-1]
    assert mixture.texts[1:3] == expected[1:3]


def test_the_same_seed_gives_the_same_order_and_another_another(train: Conversations) -> None:
    orders = [mix(train, {"one": 2}, seed=seed).index.tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_the_digest_follows_content_weights_and_seed(train: Conversations, tmp_path: Path) -> None:
    base = mix(train, {"one": 2}, seed=1).fingerprint
    assert mix(train, {"one": 2.0}, seed=1).fingerprint == base
    assert mix(train, {"one": 3}, seed=1).fingerprint != base
    assert mix(train, {"one": 2}, seed=2).fingerprint != base
    other = stored_conversations(tmp_path / "other", {"one": [numbered_chat(77)]}).train
    assert mix(other, {"one": 2}, seed=1).fingerprint != base


def test_a_source_with_the_weight_0_decides_nothing_that_follows(
    train: Conversations, tmp_path: Path
) -> None:
    mixture = mix(train, {"one": 2, "zero": 0}, seed=1)
    assert mixture.used.counts == {"one": 4, "empty": 0}
    other = {"one": [numbered_chat(i) for i in range(4)], "empty": [], "zero": [numbered_chat(5)]}
    changed = mix(stored_conversations(tmp_path / "o", other).train, {"one": 2, "zero": 0}, seed=1)
    assert changed.fingerprint == mixture.fingerprint
    assert list(changed.texts) == list(mixture.texts) == list(mixture.only(["one", "empty"]).texts)


def test_what_is_used_of_a_mixture_still_says_what_is_missing(train: Conversations) -> None:
    known = Conversations(train.sources, {"gone": "gated, no token"})
    used = mix(known, {"zero": 0}, seed=1, allow_missing=["gone", "empty"]).used
    assert used.missing["gone"] == "gated, no token"
    assert list(used.counts) == ["one", "empty"]


def test_a_mixture_of_some_sources_keeps_their_weights(train: Conversations) -> None:
    mixture = mix(train, {"one": 2.5}, seed=1)
    chosen = mixture.only(["one"])
    assert Counter(chosen.texts) == Counter(t for t in mixture.texts if "9" not in t)
    with pytest.raises(ValueError, match="sources name oen; there is one, empty, zero"):
        mixture.only(["oen"])


def test_training_texts_are_roles_and_contents_without_markers(train: Conversations) -> None:
    mixture = mix(train, {"one": 1, "zero": 0}, seed=1)
    everything = list(mixture.contents(10_000))
    first = train[int(mixture.index[0])]
    assert everything[:4] == ["user", first[0]["content"], "assistant", first[1]["content"]]
    assert not any("<|" in text for text in everything)


def test_training_texts_have_contents_of_talks_with_tools_and_no_blank_one(tmp_path: Path) -> None:
    train = stored_conversations(tmp_path, {"one": [tool_chat(1)]}).train
    asked, _, result, answer = (turn["content"] for turn in tool_chat(1))
    expected = ["user", asked, "assistant", "tool", result, "assistant", answer]
    assert list(mix(train, {}, seed=1).contents(10_000)) == expected
    with pytest.raises(ValueError, match="can not be rendered by ChatML"):
        list(mix(train, {}, seed=1).texts)


def test_a_byte_budget_takes_the_start_of_the_order(train: Conversations) -> None:
    mixture = mix(train, {"one": 1, "zero": 0}, seed=1)
    everything = list(mixture.contents(10_000))
    assert list(mixture.contents(1)) == everything[:2]


@pytest.mark.parametrize("weight", [0.01, 0.12])
def test_a_weight_that_takes_no_row_is_never_taken_for_one_of_zero(
    train: Conversations, weight: float
) -> None:
    with pytest.raises(MissingSources, match=f"the weight {weight} leaves none of its 4 rows"):
        mix(train, {"one": weight}, seed=1)
    assert len(mix(train, {"one": 0.13}, seed=1).texts) == 6
    assert mix(train, {"one": 0}, seed=1).missing == train.missing
