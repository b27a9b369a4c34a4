"""Mutants are the same every time, and what is known of them holds as long as nothing changes."""

from pathlib import Path

from tests.mutants.results import (
    Known,
    digest_of,
    equivalents,
    is_equivalent,
    mutants,
    sampled,
)

ROOT = Path(__file__).parents[2]


def test_names_are_unique_and_a_larger_sample_has_the_smaller_inside() -> None:
    everything = mutants(ROOT, ["selection", "storage.atomic"])
    assert len({mutant.name for mutant in everything}) == len(everything) > 60
    small, large = (sampled(everything, number, 0) for number in (20, 40))
    assert len(small) == 20 and set(small) < set(large)
    assert sampled(everything, 20, 1) != small
    assert sampled(everything[::-1], 20, 0) == small[::-1]


def test_equivalents_are_found_by_their_lines_and_are_all_still_there() -> None:
    known = equivalents()
    found = mutants(ROOT, {entry["module"] for entry in known})
    for entry in known:
        assert any(is_equivalent(mutant, [entry]) for mutant in found), entry
        assert entry["why"]


def test_a_result_is_kept_until_the_source_or_a_test_changes(tmp_path: Path) -> None:
    before = digest_of(ROOT, "selection", b"x = 1\n")
    assert before == digest_of(ROOT, "selection", b"x = 1\n")
    assert before != digest_of(ROOT, "selection", b"x = 2\n")
    assert before != digest_of(ROOT, "digest", b"x = 1\n")
    Known(tmp_path / "made" / "results").add(before, "failed")
    assert Known(tmp_path / "made" / "results").get(before) == "failed"
    assert Known(tmp_path / "made" / "results").get("other") is None
