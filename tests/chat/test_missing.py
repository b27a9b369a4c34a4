"""A source that is asked for and not there is an error, or a row of every table."""

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chat_world import CHATS, as_it_is, numbered_chat, source_rows, stored_conversations, tokenizer

from pipeline_lib.chat.conversation import Reject
from pipeline_lib.chat.missing import accept, as_notes, check_choice, with_notes
from pipeline_lib.chat.mixture import mix
from pipeline_lib.chat.normalize import Normalized, normalize
from pipeline_lib.chat.opened import OpenedSources
from pipeline_lib.errors import MissingSources
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.table import Table
from pipeline_lib.training.chat_datasets import DPODataset, PretrainDataset, SFTDataset

GONE = {"gated": "gated, no token: accept the terms", "broken": "damaged: fetch it again"}


def rejecting(row: dict[str, Any]) -> Any:
    return Reject("tie")


def test_all_that_is_missing_is_named_at_once_with_reasons_and_the_way_out() -> None:
    with pytest.raises(MissingSources) as caught:
        accept(GONE, ["gated", "broken", "here"], ())
    assert str(caught.value).splitlines() == [
        "2 of 3 sources that this run asks for are missing:",
        "  gated: gated, no token: accept the terms",
        "  broken: damaged: fetch it again",
        "Do what it says there and run again, or take them out of the chosen sources. "
        'To go on without them: ALLOW_MISSING = ("gated", "broken",)',
    ]


def test_only_what_is_allowed_may_be_missing_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(MissingSources, match=r"1 of 3 .*\n  broken: damaged"):
        accept(GONE, ["gated", "broken", "here"], ["gated"])
    with caplog.at_level(logging.WARNING):
        assert accept(GONE, ["gated", "broken", "here"], list(GONE)) == GONE
    assert [r.args[0] for r in caplog.records if r.args] == ["gated", "broken"]  # type: ignore[index]
    assert accept({}, ["here"], ["here"]) == {}


@pytest.mark.parametrize("allowed", [("wildcat",), "wildchat", ("soda", "wildcat")])
def test_an_allowance_for_what_is_not_chosen_is_refused(allowed: Any) -> None:
    with pytest.raises(ValueError, match="wildchat"):
        accept({}, ["wildchat", "oasst2"], allowed)
    with pytest.raises(ValueError, match="ALLOW_MISSING"):
        check_choice(["wildchat", "oasst2"], ["wildchat", "oasst2", "soda"], {}, allowed)


def test_a_text_is_not_taken_for_a_tuple_of_one_name() -> None:
    with pytest.raises(
        ValueError, match=r'is the text \'wildchat\'; expected names: \("wildchat",\)'
    ):
        accept({}, ["wildchat"], "wildchat")


def test_everything_that_is_wrong_in_the_choice_is_said_before_the_run() -> None:
    weights = {"wildcat": 1.0, "soda": -1, "oasst2": float("nan"), "arena": "2", "extra": 2}
    registered = ["wildchat", "soda", "oasst2", "arena", "extra"]
    with pytest.raises(ValueError) as caught:
        check_choice(["wildchat", "soda"], registered, weights, ["extra"])  # type: ignore[arg-type]
    assert str(caught.value).split("; ")[:2] == [
        "WEIGHTS names 'wildcat', which is no source (is it 'wildchat'?)",
        "the weight of 'soda' is -1",
    ]
    for part in ("'oasst2' is nan", "'arena' is '2'", "ALLOW_MISSING names 'extra'"):
        assert part in str(caught.value)
    check_choice(["wildchat"], registered, {"extra": 2, "soda": 0}, ["wildchat"])


def test_a_table_shows_what_is_missing_in_rows_of_its_own() -> None:
    table = Table(("source", "rows"), (("here", 3), ("empty", 0)))
    assert with_notes(table, {}) is table
    noted = with_notes(table, as_notes({"gone": "a\n b", "empty": "x" * 300}))
    assert noted.columns == ("source", "rows", "note")
    assert noted.rows[0] == ("here", 3, "")
    assert noted.rows[1][:2] == ("empty", 0) and str(noted.rows[1][2]).endswith("x...")
    assert noted.rows[2] == ("gone", None, "missing: a b")


def run(root: Path, *, gone: dict[str, str], allow: list[str], **options: Any) -> Normalized:
    """Four sources of which one gives nothing, beside those that were not opened."""
    sources = OpenedSources({"good": CHATS, "rejected": CHATS, "bare": CHATS}, {}, gone)
    normalizers: Any = {"good": as_it_is, "rejected": rejecting}
    return normalize(
        *(sources, normalizers, CacheOptions(root)), seed=7, allow_missing=allow, **options
    )


def test_a_source_without_a_normalizer_stops_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(MissingSources, match=r"1 of 3 .*\n  bare: it has no normalizer"):
        run(tmp_path, gone={}, allow=["rejected"])
    assert not list(tmp_path.iterdir())


def test_a_source_that_gives_nothing_stops_after_the_others_were_stored(tmp_path: Path) -> None:
    with pytest.raises(
        MissingSources, match=r"1 of 4 .*\n  rejected: 40 of 40 rows rejected \(tie"
    ):
        run(tmp_path, gone={"gated": "no token"}, allow=["bare", "gated"])
    assert list(tmp_path.glob("normalized-good-*/meta.json"))


def test_a_source_that_can_not_be_read_stops_no_other(tmp_path: Path) -> None:
    sources = {"cut": source_rows([{"result": numbered_chat(1)}]), "good": CHATS}

    def torn(self: Any, places: list[int]) -> Any:
        raise pa.ArrowInvalid("buffer is cut")

    sources["cut"].data.__class__ = type("Torn", (type(CHATS.data),), {"__getitem__": torn})
    names = dict.fromkeys(sources, as_it_is)
    with pytest.raises(MissingSources, match=r"1 of 2 .*\n  cut: buffer is cut"):
        normalize(sources, names, CacheOptions(tmp_path), seed=7)
    assert list(tmp_path.glob("normalized-good-*/meta.json"))


def test_a_source_that_is_held_out_whole_is_missing_in_training(tmp_path: Path) -> None:
    with pytest.raises(MissingSources, match="none of its 40 rows is in the training split: 40"):
        normalize(
            {"one": CHATS}, {"one": as_it_is}, CacheOptions(tmp_path), seed=7, val_fraction=1 - 1e-9
        )


def test_a_weight_that_leaves_no_row_is_not_taken_for_zero(tmp_path: Path) -> None:
    train = stored_conversations(
        tmp_path, {"one": [numbered_chat(1)], "two": [numbered_chat(2)] * 4}
    ).train
    weights = {"one": 0.3, "two": 1}
    with pytest.raises(MissingSources, match=r"one: the weight 0.3 leaves none of its 1 rows"):
        mix(train, weights, seed=1)
    assert mix(train, weights, seed=1, allow_missing=["one"]).report().rows[0][-1]
    assert mix(train, {**weights, "one": 0}, seed=1).missing == {}


def test_what_is_missing_is_in_the_table_of_every_later_stage(tmp_path: Path) -> None:
    done = run(tmp_path, gone={"gated": "no token"}, allow=["gated", "rejected", "bare"])
    mixture = mix(done.train, {"gated": 2, "other": 1}, seed=1, optional=["other"])
    cache = CacheOptions(tmp_path)
    tables = [
        done.table,
        mixture.report(),
        PretrainDataset(mixture, tokenizer(), cache, max_len=32).table,
        SFTDataset(done.train, tokenizer(), cache, max_len=64).table,
        DPODataset(done.train, tokenizer(), cache, max_len=64).table,
    ]
    for table in tables:
        notes = dict(zip(table.column("source"), table.column("note"), strict=True))
        assert notes["gated"] == "missing: no token"
        assert notes["bare"] == "missing: it has no normalizer; add one to NORMALIZERS"
        assert str(notes["rejected"]).startswith("missing: 40 of 40 rows rejected (tie: 40)")
        assert notes["good"] == ""
    assert tables[1].rows[-1][-1] == "not chosen"


def test_a_source_that_is_back_is_used_in_the_next_run(tmp_path: Path) -> None:
    cache, names = CacheOptions(tmp_path), dict.fromkeys(("good", "late"), as_it_is)
    late = source_rows([{"result": numbered_chat(100 + i)} for i in range(9)])
    without = normalize(
        *(OpenedSources({"good": CHATS}, {}, {"late": "no network"}), names, cache),
        seed=7,
        allow_missing=["late"],
    )
    again = normalize({"good": CHATS, "late": late}, names, cache, seed=7, allow_missing=["late"])
    assert again.missing == {} and again.train.counts["late"] > 0
    first, second = mix(without.train, {}, seed=1), mix(again.train, {}, seed=1)
    assert first.fingerprint != second.fingerprint
    tables = [PretrainDataset(m, tokenizer(), cache, max_len=32).table for m in (first, second)]
    assert "note" in tables[0].columns and "note" not in tables[1].columns
    assert tables[1].column("source") == ["good", "late"]
