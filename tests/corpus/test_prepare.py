"""Same recipe, same bytes; a run begins, goes on, or is refused, and publishes once."""

import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

import golden
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import (
    EOS,
    REFERENCE,
    contents,
    documents_of,
    folder_of,
    non_blank,
    plain,
    rows,
    small_recipe,
    texts,
    tokenizer_bytes,
    tokens_of,
    with_other_text,
    write_parquet,
)
from crashes import Killed, committing, interleaved, leave_unfinished, seam, survives, touch
from durability import broken_promises
from loopback_hub import Hub
from loopback_hub.publish import (
    byte_level_tokenizer,
    parquet_bytes,
    publish_dataset,
    publish_tokenizer,
)
from tampering import as_first, edit

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.verify import verify
from pipeline_lib.errors import (
    ColumnError,
    HubError,
    Locked,
    NothingToResume,
    OutputExists,
    PipelineError,
    ResumeRefused,
    SourceChanged,
    SourceError,
)
from pipeline_lib.records import LaneProgress
from pipeline_lib.selection import split_for
from pipeline_lib.shuffling import file_order, shuffled_texts
from pipeline_lib.storage import atomic, folders, system_calls
from pipeline_lib.storage.lock import FolderLock
from pipeline_lib.tokenization.tokenizer import load_tokenizer


def run(recipe: Any, target: Path, resume: Any = False, **options: Any) -> Manifest:
    return prepare(recipe, target, resume, dataclasses.replace(REFERENCE, **options))


def documents(folder: Path, out: Path) -> dict[str, list[str]]:
    """The texts of each split, decoded from the published shards."""
    tokenizer = load_tokenizer(folder / "tokenizer")
    found = {s: documents_of(out, s, tokenizer.eos_id) for s in ("train", "val")}
    return {split: [tokenizer.decode(ids) for ids in part] for split, part in found.items()}


def expected(recipe: Any, folder: Path) -> dict[str, list[str]]:
    """What the rules say a run publishes, step by step from the rows."""
    names = file_order([path.name for path in (folder / "corpus").iterdir()], recipe.seed)
    values = [
        value
        for name in names
        for value in pq.read_table(folder / "corpus" / name)["text"].to_pylist()
    ]
    order = shuffled_texts(
        [None if value is None else value.encode() for value in values], seed=recipe.seed,
        capacity=recipe.shuffle_buffer, capacity_bytes=recipe.shuffle_buffer_bytes,
    )  # fmt: skip
    visited = list(order)[: recipe.max_documents]
    kept = non_blank(None if row is None else row.decode() for row in visited)
    sides = {"train": [], "val": []}  # type: dict[str, list[str]]
    for text in kept:
        sides[split_for(text, recipe.seed, recipe.val_fraction)].append(text)
    return sides


@pytest.mark.parametrize("bound", [30, 119, 120, 1_000])
def test_shards_hold_exactly_the_documents_the_rules_give(tmp_path: Path, bound: int) -> None:
    recipe = small_recipe(tmp_path, max_documents=bound)
    metadata = run(recipe, tmp_path / "out")
    assert documents(tmp_path, tmp_path / "out") == expected(recipe, tmp_path)
    assert metadata["counts"]["rows_visited"] == min(bound, 120)


def test_every_shard_but_the_last_of_a_split_is_full(tmp_path: Path) -> None:
    metadata = run(small_recipe(tmp_path), tmp_path / "out")
    for shards in metadata["shards"].values():
        assert all(shard["tokens"] == 500 for shard in shards[:-1])
        arrays = [np.load(tmp_path / "out" / s["file"], mmap_mode="r") for s in shards]
        assert all(array.dtype == np.dtype("<u2") and array.ndim == 1 for array in arrays)


@pytest.mark.parametrize("encoder", ["auto", "gigatoken", "tokenizers"])
def test_the_encoder_changes_no_byte(tmp_path: Path, encoder: str) -> None:
    recipe = small_recipe(tmp_path)
    first = run(recipe, tmp_path / "one")
    second = run(recipe, tmp_path / "two", encoder=encoder)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert first["content_sha256"] == second["content_sha256"]


def test_a_corpus_and_an_output_elsewhere_give_the_same_content(tmp_path: Path) -> None:
    first = run(small_recipe(tmp_path / "here"), tmp_path / "here" / "out")
    shutil.copytree(tmp_path / "here" / "corpus", tmp_path / "there" / "corpus")
    second = run(small_recipe(tmp_path / "there"), tmp_path / "deep" / "er" / "other")
    assert first["content_sha256"] == second["content_sha256"]


def test_the_content_of_a_recipe_never_changes(tmp_path: Path) -> None:
    golden.write_world(tmp_path)
    metadata = run(small_recipe(tmp_path), tmp_path / "out")
    assert metadata["recipe_digest"][:16] == "71819a216d22a72b"
    assert metadata["source_digest"][:16] == "d98aea5e1fa00142"
    assert metadata["shards"]["train"][0]["sha256"][:16] == "4dd0c09d543e145f"
    assert metadata["content_sha256"][:16] == "c38c4d12c997e784"


def test_columns_of_any_text_type_give_the_same_tokens(tmp_path: Path) -> None:
    plain = pa.array(rows(60), pa.string())
    for name, kind in (
        ("plain", pa.string()), ("large", pa.large_string()),
        ("dictionary", pa.dictionary(pa.int32(), pa.string())),
    ):  # fmt: skip
        (tmp_path / name / "corpus").mkdir(parents=True)
        pq.write_table(pa.table({"text": plain.cast(kind)}), tmp_path / name / "corpus/a.parquet")
        run(small_recipe(tmp_path / name), tmp_path / name / "out")
    tokens = [tokens_of(tmp_path / n / "out", "train").tolist() for n in ("plain", "large")]
    assert tokens[0] == tokens[1] == tokens_of(tmp_path / "dictionary/out", "train").tolist()


def test_files_without_rows_or_without_values_take_nothing_away(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "corpus")
    write_parquet(folder / "none.parquet", [])
    pq.write_table(pa.table({"text": pa.nulls(4)}), folder / "nulls.parquet")
    with pq.ParquetWriter(folder / "no-groups.parquet", pa.schema({"text": pa.string()})):
        pass
    metadata = run(small_recipe(tmp_path), tmp_path / "out")
    assert metadata["counts"]["rows_visited"] == 124 and metadata["counts"]["skipped_null"] == 7


def test_a_document_longer_than_several_shards_is_kept_whole(tmp_path: Path) -> None:
    long = " ".join(f"word{n}" for n in range(2_000))
    write_parquet(tmp_path / "corpus" / "a.parquet", [*rows(40), long])
    metadata = run(small_recipe(tmp_path, shard_tokens=100), tmp_path / "out")
    found = documents(tmp_path, tmp_path / "out")
    assert found["train"].count(long) + found["val"].count(long) == 1
    starts = [(split, s["first_document"]) for split in found for s in metadata["shards"][split]]
    assert max(starts.count(place) for place in starts) > 20


def test_control_token_text_inside_documents_ends_no_document(tmp_path: Path) -> None:
    values = [f"{text} {EOS}{EOS} tail" for text in non_blank(rows(60))]
    write_parquet(tmp_path / "corpus" / "a.parquet", values)
    for encoder in ("tokenizers", "gigatoken"):
        run(small_recipe(tmp_path), tmp_path / encoder, encoder=encoder)
        found = documents(tmp_path, tmp_path / encoder)
        assert sorted(found["train"] + found["val"]) == sorted(values)


def test_equal_texts_are_never_on_both_sides(tmp_path: Path) -> None:
    values = [f"text {n % 11}" for n in range(90)]
    write_parquet(tmp_path / "corpus" / "a.parquet", values)
    run(small_recipe(tmp_path, val_fraction=0.4), tmp_path / "out")
    found = documents(tmp_path, tmp_path / "out")
    assert not set(found["train"]) & set(found["val"])


@pytest.mark.parametrize("tokens", [150, 301, 999, 2_836, 20_000])
def test_a_token_bound_is_crossed_by_the_last_document(tmp_path: Path, tokens: int) -> None:
    recipe = small_recipe(tmp_path, max_documents=None, train_tokens=tokens)
    write_parquet(tmp_path / "corpus" / "part-9.parquet", rows(80, 500))
    metadata = run(dataclasses.replace(recipe, val_fraction=0.5), tmp_path / "out")
    last = documents_of(tmp_path / "out", "train", 0)[-1]
    total = metadata["counts"]["train_tokens"]
    assert metadata["train_token_target_reached"] is (total >= tokens)
    if total >= tokens:
        assert total - len(last) - 1 < tokens


def test_what_stands_behind_the_crossing_document_is_counted_and_not_written(
    tmp_path: Path,
) -> None:
    recipe = small_recipe(tmp_path, max_documents=None, train_tokens=400)
    counts = run(recipe, tmp_path / "out")["counts"]
    written = counts["train_documents"] + counts["val_documents"]
    skipped = counts["skipped_null"] + counts["skipped_blank"]
    assert counts["rows_visited"] % 16 == 0 and counts["prefetched_documents_not_written"] > 0
    assert written + skipped + counts["prefetched_documents_not_written"] == counts["rows_visited"]


def test_a_bound_crossed_by_the_last_document_of_a_batch_leaves_nothing_out(
    tmp_path: Path,
) -> None:
    recipe = small_recipe(tmp_path, max_documents=None, train_tokens=400, tokenization_batch_size=1)
    counts = run(recipe, tmp_path / "out")["counts"]
    assert counts["prefetched_documents_not_written"] == 0
    assert counts["train_tokens"] >= 400


def test_one_document_a_batch_gives_the_same_shards(tmp_path: Path) -> None:
    run(small_recipe(tmp_path), tmp_path / "one")
    run(small_recipe(tmp_path, tokenization_batch_size=1), tmp_path / "two")
    for split in ("train", "val"):
        assert (tokens_of(tmp_path / "one", split) == tokens_of(tmp_path / "two", split)).all()


@pytest.mark.parametrize("lanes", [2, 3])
def test_lanes_cover_the_corpus_once_and_share_the_bound(tmp_path: Path, lanes: int) -> None:
    metadata = run(small_recipe(tmp_path, lanes=lanes), tmp_path / "out")
    found = documents(tmp_path, tmp_path / "out")
    assert sorted(found["train"] + found["val"]) == sorted(non_blank(rows(120)))
    names = {shard["file"][:9] for shard in metadata["shards"]["train"]}
    assert names == {f"train_l0{lane}" for lane in range(lanes)}
    part = run(small_recipe(tmp_path, lanes=lanes, max_documents=50), tmp_path / "part")
    assert part["counts"]["rows_visited"] == 50


def test_lanes_may_be_run_in_any_order(tmp_path: Path) -> None:
    def backwards(work: Any, items: list[Any], /) -> Any:
        return reversed([work(item) for item in reversed(items)])

    run(small_recipe(tmp_path, lanes=3), tmp_path / "one")
    run(small_recipe(tmp_path, lanes=3), tmp_path / "two", engine=backwards)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_fewer_tokens_than_lanes_still_reach_the_bound(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, max_documents=None, train_tokens=2, lanes=3, val_fraction=0.5)
    metadata = run(recipe, tmp_path / "out")
    assert metadata["train_token_target_reached"] is True
    assert metadata["counts"]["train_documents"] == 2


def test_an_output_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    run(recipe, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(OutputExists, match="already complete"):
        run(recipe, tmp_path / "out")
    assert contents(tmp_path / "out") == before
    (tmp_path / "foreign").mkdir()
    for resume in (False, True, "auto"):
        with pytest.raises(OutputExists, match=r"has no metadata\.json"):
            run(recipe, tmp_path / "foreign", resume)


def test_resuming_nothing_is_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(NothingToResume, match="leave --resume out to start one"):
        run(small_recipe(tmp_path), tmp_path / "out", True)
    assert not (tmp_path / "out.incomplete").exists()


def test_an_unfinished_run_is_not_begun_again(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    staging = leave_unfinished(recipe, tmp_path / "out")
    before = contents(staging)
    with pytest.raises(OutputExists, match="holds an unfinished run; go on with it by --resume"):
        run(recipe, tmp_path / "out")
    assert contents(staging) == before


def test_resuming_a_published_run_returns_its_metadata(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = small_recipe(tmp_path)
    first = run(recipe, tmp_path / "out")
    for resume in (True, "auto"):
        with caplog.at_level("INFO", "pipeline_lib"):
            assert run(recipe, tmp_path / "out", resume) == first
    assert "is already complete" in caplog.text


def test_a_published_run_is_complete_even_where_its_source_is_gone(tmp_path: Path) -> None:
    first = run(small_recipe(tmp_path), tmp_path / "out")
    shutil.rmtree(tmp_path / "corpus")
    fields = {k: v for k, v in first["recipe"].items() if k != "algorithm"}
    recorded = dataclasses.replace(small_recipe(tmp_path), **fields)
    shutil.rmtree(tmp_path / "corpus")
    assert run(recorded, tmp_path / "out", True) == first


def test_auto_starts_goes_on_and_returns(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    golden = run(recipe, tmp_path / "golden", "auto")
    leave_unfinished(recipe, tmp_path / "out")
    assert run(recipe, tmp_path / "out", "auto")["content_sha256"] == golden["content_sha256"]
    assert run(recipe, tmp_path / "out", "auto")["content_sha256"] == golden["content_sha256"]


@pytest.mark.parametrize("change", [{"seed": 4}, {"lanes": 2}, {"shuffle_buffer": 21}])
@pytest.mark.parametrize("published", [True, False])
def test_another_recipe_is_refused_with_old_and_new_value_and_changes_nothing(
    tmp_path: Path, change: dict[str, Any], published: bool
) -> None:
    recipe, (name, value) = small_recipe(tmp_path), next(iter(change.items()))
    if published:
        run(recipe, tmp_path / "out")
    else:
        leave_unfinished(recipe, tmp_path / "out")
    before = contents(tmp_path)
    old = getattr(recipe, name)
    for resume in (True, "auto"):
        with pytest.raises(ResumeRefused, match=f"{name}: was {old}, is {value}"):
            run(dataclasses.replace(recipe, **change), tmp_path / "out", resume)
    assert contents(tmp_path) == before


def test_a_corpus_that_moved_is_still_the_same_source(tmp_path: Path) -> None:
    golden = run(small_recipe(tmp_path), tmp_path / "golden")
    leave_unfinished(small_recipe(tmp_path), tmp_path / "out")
    (tmp_path / "corpus").rename(tmp_path / "moved")
    recipe = dataclasses.replace(small_recipe(tmp_path), dataset=str(tmp_path / "moved"))
    assert run(recipe, tmp_path / "out", True)["content_sha256"] == golden["content_sha256"]


def test_another_process_at_work_is_named(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    staging = leave_unfinished(recipe, tmp_path / "out")
    with (
        FolderLock(staging / "lock"),
        pytest.raises(Locked, match=f"in use by process {os.getpid()}"),
    ):
        run(recipe, tmp_path / "out", True)


def test_death_between_the_rename_and_the_end_is_cleaned_up_by_the_next_run(
    tmp_path: Path,
) -> None:
    recipe = small_recipe(tmp_path)
    with seam() as watched:
        golden = run(recipe, tmp_path / "golden")
    assert watched.names[-1] == "rmtree"
    last = len(watched.names)
    for at in (last - 1, last):
        target = tmp_path / f"out{at}"
        assert not survives(lambda target=target: run(recipe, target), at, torn=True)
        assert target.exists() and target.with_name(f"{target.name}.incomplete").exists()
        assert run(recipe, target, True)["content_sha256"] == golden["content_sha256"]
        assert not target.with_name(f"{target.name}.incomplete").exists()


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("kind", ["write", "fsync"])
def test_a_disk_that_is_full_or_failing_stops_the_run_and_a_resume_ends_the_same(
    tmp_path: Path, kind: str, share: float
) -> None:
    recipe = small_recipe(tmp_path)
    with seam(only=kind) as watched:
        prepare(recipe, tmp_path / "golden", options=committing())
    full = OSError(28 if kind == "write" else 5, "No space left on device")
    at = int(watched.calls * share)
    with seam(at, only=kind, error=full), pytest.raises((PipelineError, OSError)):
        prepare(recipe, tmp_path / "out", options=committing())
    run(recipe, tmp_path / "out", "auto")
    assert contents(tmp_path / "out") == contents(tmp_path / "golden")


def test_a_run_dies_of_a_callback_only_at_its_last_commit(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)

    def fail(progress: LaneProgress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(recipe, tmp_path / "out", on_progress=fail)
    run(recipe, tmp_path / "out", True)
    run(recipe, tmp_path / "golden")
    assert contents(tmp_path / "out") == contents(tmp_path / "golden")


def hub_world(hub: Hub, **more: Any) -> Any:
    values = [{"text": row} for row in rows(120)]
    repo = publish_dataset(
        hub, "acme/docs", {"default": {"train": [values[:60], values[60:]]}}, **more
    )
    publish_tokenizer(hub, "acme/tok", tokenizer_bytes())
    return repo


def hub_recipe(folder: Path, **more: Any) -> Any:
    return small_recipe(folder, dataset="acme/docs", tokenizer="acme/tok", **more)


def test_a_hub_dataset_is_prepared_at_a_pinned_commit(hub: Hub, tmp_path: Path) -> None:
    repo = hub_world(hub)
    metadata = run(hub_recipe(tmp_path), tmp_path / "out")
    assert metadata["source"]["revision"] == repo.sha
    assert metadata["tokenizer"]["revision"] == hub.repos["model", "acme/tok"].sha
    assert metadata["counts"]["rows_visited"] == 120
    again = run(hub_recipe(tmp_path, revision=repo.sha), tmp_path / "two")
    assert manifest.content_of(again) == manifest.content_of(metadata)


def test_a_branch_that_moves_between_run_and_resume_changes_nothing(
    hub: Hub, tmp_path: Path
) -> None:
    repo = hub_world(hub)
    golden = run(hub_recipe(tmp_path), tmp_path / "golden")
    leave_unfinished(hub_recipe(tmp_path), tmp_path / "out")
    repo.edit({"default/train-00000-of-00002.parquet": parquet_bytes([{"text": "new"}])})
    hub.repos["model", "acme/tok"].edit({"tokenizer.json": byte_level_tokenizer(vocab_size=280)})
    assert (
        run(hub_recipe(tmp_path), tmp_path / "out", True)["content_sha256"]
        == (golden["content_sha256"])
    )


def test_another_commit_is_refused_with_both_ids(hub: Hub, tmp_path: Path) -> None:
    repo = hub_world(hub)
    old = repo.sha
    leave_unfinished(hub_recipe(tmp_path), tmp_path / "out")
    repo.edit({"NOTES.md": b"new"})
    with pytest.raises(ResumeRefused, match=f"revision: was '{old}', is '{repo.sha}'"):
        run(hub_recipe(tmp_path, revision="main"), tmp_path / "out", True)


def test_a_hub_file_that_stays_damaged_stops_the_run(hub: Hub, tmp_path: Path) -> None:
    hub_world(hub)
    golden = run(hub_recipe(tmp_path / "a"), tmp_path / "golden")
    hub.reset()
    hub_world(hub)
    shutil.rmtree(Path(os.environ["HF_HOME"]) / "hub")
    hub.fault("/cdn/", method="GET", corrupt=True, times=20, skip=1)
    with pytest.raises(HubError, match="arrived damaged twice"):
        run(hub_recipe(tmp_path / "b"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    hub.reset()
    hub_world(hub)
    assert (
        run(hub_recipe(tmp_path / "b"), tmp_path / "out", "auto")["content_sha256"]
        == (golden["content_sha256"])
    )


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from corpora import small_recipe
from crashes import committing
from pipeline_lib.corpus.prepare import prepare
folder = Path(sys.argv[1])
prepare(small_recipe(folder), folder / "out", resume="auto", options=committing())
"""


def test_three_processes_on_one_output_publish_one_result(tmp_path: Path) -> None:
    golden = run(small_recipe(tmp_path), tmp_path / "golden")
    here = Path(__file__).parent
    command = [sys.executable, "-c", CHILD, str(tmp_path), str(here), str(here.parent)]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    errors = [child.communicate()[1].decode() for child in children]
    assert 0 in [child.returncode for child in children], errors
    for child, error in zip(children, errors, strict=True):
        last = error.strip().splitlines()[-1:]
        assert child.returncode == 0 or "Locked: " in last[0], error
    found = json.loads((tmp_path / "out" / MANIFEST).read_bytes())
    assert found["content_sha256"] == golden["content_sha256"]
    assert not (tmp_path / "out.incomplete").exists()


REFUSALS: dict[Any, Any] = {
    "auto": (Locked,),
    True: (Locked, NothingToResume),
    False: (Locked, OutputExists),
}


@pytest.mark.parametrize("resume", REFUSALS)
def test_another_process_at_any_instant_is_refused_in_words_or_gets_the_same(
    tmp_path: Path, resume: Any
) -> None:
    recipe = small_recipe(tmp_path, max_documents=50, shard_tokens=400)
    golden = run(recipe, tmp_path / "golden")["content_sha256"]
    numbers = itertools.count()

    def outcomes(places: Container[int]) -> list[str]:
        """What the other process gets before each of these calls of one run."""
        target, found = tmp_path / f"out{next(numbers)}", list[str]()

        def other() -> None:
            try:
                found.append(str(run(recipe, target, resume)["content_sha256"] == golden))
            except REFUSALS[resume] as error:
                found.append(type(error).__name__)

        with interleaved(places, other):
            assert run(recipe, target, "auto")["content_sha256"] == golden
        assert not target.with_name(f"{target.name}.incomplete").exists()
        return found

    with seam() as watched:
        run(recipe, tmp_path / "watched")
    one_by_one = [(lambda at=at: outcomes([at])[0]) for at in range(1, watched.calls + 1)]
    early = list(itertools.takewhile(not_locked, (ask() for ask in one_by_one)))
    late = list(itertools.takewhile(not_locked, (ask() for ask in reversed(one_by_one))))
    held = range(len(early) + 1, watched.calls - len(late) + 1)
    assert set(early) == {"NothingToResume" if resume is True else "True"}
    assert outcomes(held) == ["Locked"] * len(held) and len(held) > 50
    assert set(late) == {"OutputExists" if resume is False else "True"}


def not_locked(outcome: str) -> bool:
    return outcome != "Locked"


def test_a_run_that_may_not_replace_is_told_that_another_has_published_meanwhile(
    tmp_path: Path,
) -> None:
    recipe = small_recipe(tmp_path)
    with (
        interleaved([1], lambda: run(recipe, tmp_path / "out")),
        pytest.raises(OutputExists, match="already complete and is never overwritten"),
    ):
        run(recipe, tmp_path / "out")


@pytest.mark.parametrize("resume", [False, True, "auto"])
def test_nothing_is_written_into_a_folder_that_is_none_of_ours(tmp_path: Path, resume: Any) -> None:
    recipe = small_recipe(tmp_path)
    (tmp_path / "out.incomplete").mkdir()
    (tmp_path / "out.incomplete" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputExists, match=r"holds thesis\.txt but no checkpoint\.json"):
        run(recipe, tmp_path / "out", resume)
    assert [path.name for path in (tmp_path / "out.incomplete").iterdir()] == ["thesis.txt"]


def test_a_lost_checkpoint_is_not_taken_for_a_fresh_start_by_auto(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    staging = leave_unfinished(recipe, tmp_path / "out")
    for name in ("checkpoint.json", "checkpoint.prev.json"):
        (staging / name).unlink()
    before = contents(staging)
    with pytest.raises(OutputExists, match=r"but no checkpoint\.json"):
        run(recipe, tmp_path / "out", "auto")
    assert contents(staging) == before


def test_the_seam_is_put_back_after_a_death(tmp_path: Path) -> None:
    before = dict(vars(system_calls.system))
    with pytest.raises(Killed), seam(1):
        folders.make_folder(tmp_path / "a")
    assert vars(system_calls.system) == before


@pytest.mark.parametrize("change", [{"seed": 5}, {"text_column": "other"}, {"train_tokens": 9}])
def test_a_published_folder_of_local_things_is_compared_without_asking_the_hub(
    tmp_path: Path, hub: Hub, change: dict[str, Any]
) -> None:
    recipe = small_recipe(tmp_path)
    prepare(recipe, tmp_path / "out")
    recorded = Recipe.from_fields(atomic.load_json(tmp_path / "out" / "metadata.json")["recipe"])
    other = dataclasses.replace(recorded, **({"max_documents": None} | change))
    with pytest.raises(ResumeRefused, match=f"{next(iter(change))}: was"):
        prepare(other, tmp_path / "out", resume=True)
    assert not len(hub.journal)


def test_a_published_folder_is_recognised_from_a_moved_source(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    made = prepare(recipe, tmp_path / "out")
    moved = shutil.move(recipe.dataset, tmp_path / "moved")
    again = dataclasses.replace(recipe, dataset=str(moved))
    assert prepare(again, tmp_path / "out", resume=True) == made


def plain_world(folder: Path, **changes: Any) -> tuple[Recipe, Path, Path]:
    """A recipe of which one file alone is read, that file, and another one."""
    recipe = small_recipe(folder, **{"max_documents": 15, "val_fraction": 0.3, **changes})
    for path in (folder / "corpus").iterdir():
        plain(path)
    first, other, _ = file_order(["part-0.parquet", "part-1.parquet", "part-2.parquet"], 1337)
    return recipe, folder / "corpus" / first, folder / "corpus" / other


@pytest.mark.parametrize("resume", ["auto", True])
def test_a_published_folder_is_not_returned_for_other_text_behind_equal_sizes_and_footers(
    tmp_path: Path, resume: Any
) -> None:
    recipe, read, _ = plain_world(tmp_path)
    made = run(recipe, tmp_path / "out")
    before = read.read_bytes()
    with_other_text(read)
    with pytest.raises(SourceChanged, match=f"out was published from other content: .*{read.name}"):
        run(recipe, tmp_path / "out", resume)
    fresh = run(recipe, tmp_path / "fresh")
    assert fresh["recipe_digest"] == made["recipe_digest"]
    assert fresh["source"]["sha256"] != made["source"]["sha256"]
    read.write_bytes(before)
    assert run(recipe, tmp_path / "out", resume) == made


def test_a_published_folder_is_returned_for_touched_files_and_for_files_that_gave_no_row(
    tmp_path: Path,
) -> None:
    recipe, read, other = plain_world(tmp_path)
    made = run(recipe, tmp_path / "out")
    touch(read)
    with_other_text(other)
    assert run(recipe, tmp_path / "out", "auto") == made


def test_an_unchanged_source_of_a_published_folder_is_not_hashed_again(tmp_path: Path) -> None:
    recipe, read, _ = plain_world(tmp_path)
    made = run(recipe, tmp_path / "out")
    stat = read.stat()
    with_other_text(read)
    os.utime(read, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert run(recipe, tmp_path / "out", "auto") == made  # size and time are what is looked at


def test_a_published_folder_of_an_earlier_version_says_that_its_source_is_not_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = small_recipe(tmp_path)
    made = run(recipe, tmp_path / "out")
    edit(tmp_path / "out", as_first)
    assert run(recipe, tmp_path / "out", "auto")["counts"] == made["counts"]
    assert "kept no hashes of its source" in caplog.text


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_file_that_changes_during_the_run_is_named_and_nothing_is_published(
    tmp_path: Path, lanes: int
) -> None:
    for name in ("part-0", "part-1", "part-2"):
        write_parquet(tmp_path / "corpus" / f"{name}.parquet", texts(600))
    recipe, read, _ = plain_world(tmp_path, max_documents="all", lanes=lanes)
    changes = itertools.count()

    def change(progress: LaneProgress) -> None:
        if not next(changes):
            with_other_text(read)

    with pytest.raises(SourceChanged, match=f"{read.name} changed since the run"):
        run(recipe, tmp_path / "out", on_progress=change, checkpoint_interval=1e-9)
    assert not (tmp_path / "out").exists()
    with pytest.raises(SourceChanged, match=f"{read.name} changed since the run opened it"):
        run(recipe, tmp_path / "out", "auto")


def test_a_source_that_was_moved_names_the_way_out(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    leave_unfinished(recipe, tmp_path / "out", 5)
    recorded = atomic.load_json(tmp_path / "out.incomplete" / "checkpoint.json")["recipe"]
    shutil.move(recipe.dataset, tmp_path / "moved")
    with pytest.raises(SourceError, match="give its new place with --dataset"):
        prepare(Recipe.from_fields(recorded), tmp_path / "out", resume=True)


def test_a_wrong_column_of_a_hub_dataset_leaves_nothing_behind(hub: Hub, tmp_path: Path) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"train": [[{"text": 1, "body": "a"}]]}})
    with pytest.raises(
        ColumnError, match=r"column `text` is int64, not text; .*: body; choose one"
    ):
        prepare(small_recipe(tmp_path, dataset="acme/docs"), tmp_path / "out", options=REFERENCE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "tokenizer"]


def test_a_folder_of_another_algorithm_version_is_refused_with_both_versions(
    tmp_path: Path,
) -> None:
    recipe = small_recipe(tmp_path)
    run(recipe, tmp_path / "out")
    edit(tmp_path / "out", lambda fields: fields["recipe"].update(algorithm=99))
    with pytest.raises(ResumeRefused, match="made by algorithm version 99, this is version 1"):
        run(recipe, tmp_path / "out", "auto")


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("before", ["nothing", "an unfinished run", "a damaged one"])
def test_after_a_power_cut_at_any_time_nothing_committed_is_lost(
    tmp_path: Path, lanes: int, before: str
) -> None:
    sizes = {"shard_tokens": 100, "max_documents": 60, "tokenization_batch_size": 8}
    recipe, target = small_recipe(tmp_path, lanes=lanes, **sizes), tmp_path / "out"
    if before != "nothing":
        leave_unfinished(recipe, target, batches=3)
    if before == "a damaged one":
        for path in tmp_path.glob("out.incomplete/**/checkpoint.json"):
            path.write_bytes(b"{")
    assert (
        broken_promises(tmp_path, lambda: run(recipe, target, "auto", **vars(committing()))) == []
    )
    assert verify(target) == []
