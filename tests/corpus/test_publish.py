"""A finished run appears under its name in one step, or says why it does not."""

import dataclasses
import errno
import hashlib
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from corpora import REFERENCE, a_checkpoint, contents, small_recipe, write_parquet
from crashes import HALVED, leave_unfinished, seam, survives

import pipeline_lib
from pipeline_lib import digest
from pipeline_lib.corpus.layout import staging_folder
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.pinned import pin
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.publish import build_manifest, code_digest
from pipeline_lib.corpus.state import BySplit
from pipeline_lib.errors import OutputExists, SourceError
from pipeline_lib.records import LaneProgress, SourceFile, WriterState


def run(recipe: Any, target: Path, resume: Any = False, **options: Any) -> Manifest:
    return prepare(recipe, target, resume, dataclasses.replace(REFERENCE, **options))


def test_a_source_that_ends_below_the_token_bound_warns_and_publishes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = run(small_recipe(tmp_path, max_documents=None, train_tokens=10**6), tmp_path / "out")
    assert metadata["train_token_target_reached"] is False
    assert "the source ended it at 2,837 of 1,000,000 train tokens" in caplog.text


@pytest.mark.parametrize("reached", itertools.product([True, False], repeat=3))
def test_the_token_bound_is_reached_only_if_every_lane_reached_its_own(
    tmp_path: Path, reached: tuple[bool, ...]
) -> None:
    pinned = pin(small_recipe(tmp_path, max_documents=None, train_tokens=300, lanes=3))
    some = WriterState(shards=[], open=None, documents=1, tokens=5)
    lanes = [
        a_checkpoint(
            lane=lane,
            source_rows_visited=2,
            source_files={"a": SourceFile(name="a", size=1, sha256="", mtime_ns=0)},
            train_token_target_reached=one,
            writers=BySplit(train=some, val=some),
        )
        for lane, one in enumerate(reached)
    ]
    found = build_manifest(pinned, lanes)
    assert found["train_token_target_reached"] is (reached == (True, True, True))
    assert (found["counts"]["rows_visited"], found["counts"]["train_tokens"]) == (6, 15)


@pytest.mark.parametrize("fraction", [1e-9, 1 - 1e-9])
def test_an_empty_split_is_an_error_and_leaves_nothing(tmp_path: Path, fraction: float) -> None:
    recipe = small_recipe(tmp_path, val_fraction=fraction)
    with pytest.raises(
        SourceError, match=r"split got no document out of 120 rows; visit more rows"
    ):
        run(recipe, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "tokenizer"]


def test_death_while_an_empty_run_is_removed_leaves_nothing_to_remove_by_hand(
    tmp_path: Path,
) -> None:
    good = small_recipe(tmp_path)
    empty = dataclasses.replace(good, val_fraction=1e-9)
    with seam(watch=tmp_path) as watched, pytest.raises(SourceError):
        run(empty, tmp_path / "out")
    finished = len(watched.names) - watched.names[::-1].index("replace")
    begun = 0
    for at in (place for place in watched.places() if place > finished):
        for torn in (False, True) if watched.names[at - 1] in HALVED else (False,):
            target = tmp_path / f"out{at}{torn}"
            assert not survives(lambda target=target: run(empty, target), at, torn=torn)
            shutil.copytree(staging_folder(target), tmp_path / "left.incomplete")
            try:
                run(good, target)
                begun += 1
            except OutputExists as error:
                assert not begun and "holds an unfinished run; go on with it" in str(error)
            with pytest.raises(SourceError, match="got no document out of 120 rows"):
                run(empty, tmp_path / "left", "auto")
            assert not list(tmp_path.glob("left*"))
    assert begun > 4


def test_a_staging_folder_that_can_not_be_removed_is_only_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = small_recipe(tmp_path)
    failure = OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    with seam(1, only="rmtree", error=failure):
        metadata = run(recipe, tmp_path / "out")
    assert metadata == run(recipe, tmp_path / "out", True)
    assert "could not remove" in caplog.text and "nothing in it is needed" in caplog.text
    assert not (tmp_path / "out.incomplete").exists()


def test_what_systems_leave_in_the_payload_is_not_published(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    staging = leave_unfinished(recipe, tmp_path / "out")
    (staging / "payload" / ".DS_Store").write_bytes(b"x")
    (staging / "payload" / "notes.txt").write_bytes(b"mine")
    with pytest.raises(OutputExists, match=r"notes\.txt is in the folder to be published but no"):
        run(recipe, tmp_path / "out", True)
    (staging / "payload" / "notes.txt").unlink()
    run(recipe, tmp_path / "out", True)
    run(recipe, tmp_path / "golden")
    assert contents(tmp_path / "out") == contents(tmp_path / "golden")


def test_a_corpus_of_blanks_publishes_nothing(tmp_path: Path) -> None:
    write_parquet(tmp_path / "corpus" / "a.parquet", ["", None, "  ", "\u3000\n"] * 9)
    with pytest.raises(SourceError, match="got no document out of 36 rows"):
        run(small_recipe(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.incomplete").exists()


def test_an_output_that_appears_during_the_run_is_not_replaced(tmp_path: Path) -> None:
    def appear(progress: LaneProgress) -> None:
        (tmp_path / "out").mkdir(exist_ok=True)

    recipe = small_recipe(tmp_path)
    with pytest.raises(OutputExists, match="already exists and is never replaced"):
        run(recipe, tmp_path / "out", on_progress=appear)
    (tmp_path / "out").rmdir()
    run(recipe, tmp_path / "out", True)
    run(recipe, tmp_path / "golden")
    assert contents(tmp_path / "out") == contents(tmp_path / "golden")


READ = [(10, 1, 1), (30, 1, 2), (999, 1, 3), (20, 2, 2)]


@pytest.mark.parametrize(("rows", "lanes", "read"), READ)
def test_the_manifest_hashes_the_files_that_gave_rows_and_no_other(
    tmp_path: Path, rows: int, lanes: int, read: int
) -> None:
    recipe = small_recipe(tmp_path, max_documents=rows, lanes=lanes, val_fraction=0.5, seed=4)
    found = run(recipe, tmp_path / "out")
    source, measured = found["source"], found["measured"]
    assert len(source["sizes"]) == 3 and len(source["sha256"]) == read
    for name, sha256 in source["sha256"].items():
        path = tmp_path / "corpus" / name
        assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert measured["source_mtimes_ns"][name] == path.stat().st_mtime_ns
    assert source["files"][0] in source["sha256"]


def test_the_code_has_one_digest() -> None:
    folder = Path(pipeline_lib.__file__).parent
    files = sorted(folder.rglob("*.py"))
    found = [[f.relative_to(folder).as_posix(), digest.sha256_file(f)] for f in files]
    assert code_digest() == digest.of_json(found) and len(found) > 100


def test_a_source_without_rows_publishes_nothing(tmp_path: Path) -> None:
    write_parquet(tmp_path / "corpus" / "a.parquet", [])
    with pytest.raises(SourceError, match="corpus has no rows; check the path"):
        run(small_recipe(tmp_path), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "tokenizer"]
