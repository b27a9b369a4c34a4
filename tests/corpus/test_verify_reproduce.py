"""A folder that is made again is found to be what its recipe makes, or what differs is named.

Every change of this file leaves a folder that agrees with itself: all digests and sums are right,
and a check that looks at the folder alone finds nothing.
"""

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest
from corpora import (
    REFERENCE,
    folder_of,
    rows,
    small_recipe,
    text,
    tokenizer_bytes,
    tokenizer_file,
)
from crashes import leave_unfinished, run, seam
from gigatoken import gigatoken_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loopback_hub import Hub
from loopback_hub.publish import byte_level_tokenizer, publish_dataset, publish_tokenizer
from tampering import Documents, Place, altered, as_first, edit, edit_place, places, rewrite

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.reproduction import NOTHING, TIMES, Reproduction, reproduce
from pipeline_lib.corpus.verify import verify
from pipeline_lib.errors import EncoderMismatch, PipelineError, SourceError
from pipeline_lib.prepare_data import main
from pipeline_lib.records import LaneProgress


def again(world: Path, out: Path | None = None, **more: Any) -> Reproduction:
    return reproduce(out or world / "out", str(world / "corpus"), str(world / "tokenizer"), **more)


RECIPES: dict[str, dict[str, Any]] = {
    "the whole source": {},
    "three lanes": {"lanes": 3},
    "a bound of rows": {"max_documents": 50},
    "a bound of tokens": {"max_documents": None, "train_tokens": 1_000},
    "three lanes and a bound of tokens": {
        "max_documents": None, "train_tokens": 1_000, "lanes": 3,
    },
    "small shards": {"shard_tokens": 7, "max_documents": 30},
    "one shard that is just full": {"shard_tokens": 2_837},
    "a buffer that overflows": {"shuffle_buffer_bytes": 300},
}  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_an_untouched_folder_is_made_again_without_a_fault(
    world: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    counts = prepare(small_recipe(world, **RECIPES[name]), out, options=REFERENCE)["counts"]
    documents = counts["train_documents"] + counts["val_documents"]
    tokens = counts["train_tokens"] + counts["val_tokens"]
    assert again(world, out) == Reproduction(
        [],
        [],
        f"{documents:,} documents with {tokens:,} tokens were made again, "
        "all of them by the reference encoder",
    )


def test_a_run_that_was_killed_and_resumed_has_no_fault(world: Path, tmp_path: Path) -> None:
    recipe = small_recipe(world, lanes=3, tokenization_batch_size=8)
    leave_unfinished(recipe, tmp_path / "out", lane=1)
    run(recipe, tmp_path / "out")
    assert again(world, tmp_path / "out").faults == []


def test_the_recorded_encoder_makes_the_ids_and_the_reference_some_of_them(
    world: Path, tmp_path: Path
) -> None:
    prepare(small_recipe(world), tmp_path / "out", options=PrepareOptions(encoder="gigatoken"))
    found = again(world, tmp_path / "out")
    assert found.faults == found.notes == []
    assert found.done.endswith("112 of them also by the reference encoder")


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    found = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def test_nothing_is_written_anywhere(world: Path, tmp_path: Path) -> None:
    recipe = small_recipe(world, lanes=3)
    prepare(recipe, tmp_path / "out", options=PrepareOptions(encoder="gigatoken"))
    rewrite(tmp_path / "out", partial(exchange, one=3, other=2))
    before = snapshot(world) | snapshot(tmp_path)
    for path in (tmp_path, tmp_path / "out"):
        path.chmod(0o555)
    try:
        with seam() as watched:
            assert again(world, tmp_path / "out").faults
    finally:
        for path in (tmp_path, tmp_path / "out"):
            path.chmod(0o755)
    assert watched.names == [] and snapshot(world) | snapshot(tmp_path) == before


# What a bug might do to the documents.


def exchange(documents: Documents, one: int, other: int) -> None:
    """A document of each split changes places with one of the other."""
    train, val = documents["train", 0], documents["val", 0]
    a, b = one % len(train), other % len(val)
    train[a], val[b] = val[b], train[a]


def swap(documents: Documents, one: int, other: int) -> None:
    train = documents["train", 0]
    a, b = one % len(train), other % len(train)
    train[a], train[b] = train[b], train[a]


def copied(documents: Documents, one: int, other: int) -> None:
    """A document is replaced by a copy of another."""
    train = documents["train", 0]
    train[one % len(train)] = list(train[other % len(train)])


def removed(documents: Documents, one: int, other: int) -> None:
    side = documents["val" if other % 3 == 0 else "train", 0]
    side.pop(one % len(side))


def doubled(documents: Documents, one: int, other: int) -> None:
    side = documents["val" if other % 3 == 0 else "train", 0]
    side.insert(one % len(side), list(side[one % len(side)]))


def added(documents: Documents, one: int, other: int) -> None:
    documents["val" if other % 3 == 0 else "train", 0].append([5, 6, 0])


def another_token(documents: Documents, one: int, other: int) -> None:
    document = documents["train", 0][one % len(documents["train", 0])]
    place = other % (len(document) - 1)
    document[place] = document[place] % 298 + 1


def shortened(documents: Documents, one: int, other: int) -> None:
    document = documents["train", 0][one % len(documents["train", 0])]
    document.pop(other % (len(document) - 1))


def parted(documents: Documents, one: int, other: int) -> None:
    """One document becomes two."""
    train = documents["train", 0]
    document = train.pop(one % len(train))
    train[one % (len(train) + 1) : one % (len(train) + 1)] = [[*document[:2], 0], document[2:]]


def moved_over(documents: Documents, one: int, other: int) -> None:
    """A document goes to the other split."""
    train, val = documents["train", 0], documents["val", 0]
    val.insert(other % len(val), train.pop(one % len(train)))


def in_order(documents: Documents, one: int, other: int) -> None:
    documents["train", 0].sort()


CHANGES = [
    exchange, swap, copied, removed, doubled, added, another_token, shortened, parted, moved_over,
    in_order,
]  # fmt: skip


@given(change=st.sampled_from(CHANGES), one=st.integers(0, 10_000), other=st.integers(0, 10_000))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_the_documents_is_found_at_its_first_document(
    world: Path, tmp_path: Path, change: Callable[..., None], one: int, other: int
) -> None:
    out = tmp_path / "out"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(world / "out", out)
    seen: list[Documents] = []

    def changed(documents: Documents) -> None:
        seen.append({side: [list(d) for d in found] for side, found in documents.items()})
        change(documents, one, other)
        seen.append(documents)

    rewrite(out, changed)
    before, after = seen
    assert verify(out) == [], "the check of the folder alone is not enough"
    faults = again(world, out).faults
    if before == after:
        assert faults == []
        return
    for split in ("train", "val"):
        first = first_difference(before[split, 0], after[split, 0])
        if first is not None:
            assert any(f": {split} document {first:,} (part-" in fault for fault in faults), faults


def first_difference(made: list[list[int]], found: list[list[int]]) -> int | None:
    """The first document with other ids; None if there is none, or only more documents."""
    other = [token for document in found for token in document]
    start = 0
    for number, document in enumerate(made):
        if other[start : start + len(document)] != document:
            return number
        start += len(document)
    return None


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_a_late_exchange_between_the_splits_is_told_by_file_row_and_text(
    world: Path, tmp_path: Path, lane: int
) -> None:
    out = tmp_path / "out"
    prepare(small_recipe(world, lanes=3), out, options=REFERENCE)

    def late(documents: Documents) -> None:
        train, val = documents["train", lane], documents["val", lane]
        train[-1], val[-1] = val[-1], train[-1]
        shown.extend([len(train) - 1, len(val) - 1])

    shown: list[int] = []
    rewrite(out, late)
    faults = again(world, out).faults
    for split, number in zip(("train", "val"), shown, strict=True):
        (fault,) = [line for line in faults if f": {split} document {number} (" in line]
        assert f"{out}/{split}_l{lane:02d}_0000" in fault and "goes on with ids [" in fault
        file, row = fault.split("(part-")[1].split(".parquet, row ")
        source = rows(120)[int(file) * 40 + int(row.split(":")[0])]
        assert source is not None and repr(source[:60].encode()) in fault


def test_the_first_differences_are_shown_and_the_others_counted(world: Path, out: Path) -> None:
    rewrite(out, lambda documents: documents["train", 0].pop(0))
    faults = again(world, out).faults
    shown = [fault for fault in faults if ": train document " in fault]
    assert [f": train document {n} (" in line for n, line in enumerate(shown)] == [True] * 10
    (rest,) = [fault for fault in faults if fault.endswith("more documents that differ")]
    assert int(rest.split()[1]) > 60


def test_a_shard_that_is_missing_longer_or_has_another_header_is_named(
    world: Path, out: Path
) -> None:
    (out / "train_00001.npy").unlink()
    with (out / "train_00002.npy").open("ab") as file:
        file.write(b"\0\0")
    header = (out / "train_00003.npy").read_bytes()
    (out / "train_00003.npy").write_bytes(header.replace(b"False", b"True ", 1))
    (out / "train_00004.npy").write_bytes(header[:200])
    faults = again(world, out).faults
    assert f"{out}/train_00001.npy is missing; 500 tokens were made again for it" in faults
    assert f"{out}/train_00002.npy has 1,130 bytes, 1,128 were made again" in faults
    assert any("train_00003.npy begins with another header than" in fault for fault in faults)
    assert f"{out}/train_00004.npy has 200 bytes, 1,128 were made again" in faults
    assert any("the shard with nothing" in fault for fault in faults)


def test_a_stray_file_and_another_spelling_are_found(world: Path, out: Path) -> None:
    (out / "train_00009.npy").write_bytes(b"")
    (out / MANIFEST).write_bytes((out / MANIFEST).read_bytes() + b"\n")
    spelling, stray = again(world, out).faults
    assert "not spelled as it was written" in spelling and "train_00009.npy" in stray


# Every field of the manifest.


def mutations(fields: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Another value for every place: in the recipe all kinds, elsewhere one kind after another."""
    for number, place in enumerate(places(fields)):
        if place and place not in (("content_sha256",), ("manifest_sha256",)):
            value = reduce(lambda inside, name: inside[name], place, fields)
            others = [other for other in altered(value) if other != value]
            one = number % max(1, len(others))
            chosen = others if place[0] == "recipe" else others[one:][:1]
            yield from ((place, other) for other in chosen)


def test_every_field_is_compared_or_noted_or_is_a_time(world: Path, tmp_path: Path) -> None:
    """An edit of the recipe that is not found is no lie: that recipe makes just this folder."""
    out, tried = tmp_path / "out", 0
    shutil.copytree(world / "out", out)
    original = (out / MANIFEST).read_bytes()
    for place, value in mutations(json.loads(original)):
        tried += 1
        edited = edit_place(out, place, value)
        said = f"{place} as {value!r}"
        try:
            faults, notes, _ = again(world, out)
        except (PipelineError, ValueError) as error:
            faults, notes = [str(error)], []
        if place[0] == "measured" and place[1:2] and place[1] in TIMES:
            assert faults == [] or place[1] == "source_mtimes_ns", said  # one may be of no type
        elif place[0] == "measured":
            assert faults or notes[0].startswith(spelled(place)), said
        elif not faults:
            assert place[0] == "recipe" and is_true(world, tmp_path / "true", edited), said
        (out / MANIFEST).write_bytes(original)
    assert tried > 130


def spelled(place: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:]


def is_true(world: Path, out: Path, edited: dict[str, Any]) -> bool:
    """Whether a run of the edited recipe publishes just what the edited manifest says."""
    shutil.rmtree(out, ignore_errors=True)
    names = {"dataset": str(world / "corpus"), "tokenizer": str(world / "tokenizer")}
    recipe = Recipe.from_fields(edited["recipe"] | names)
    made = prepare(recipe, out, options=REFERENCE)
    return manifest.content_of(made) == manifest.content_of(edited)  # type: ignore[arg-type]


NAMED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "null counts": (
        lambda m: (
            m["counts"].update(skipped_null=1, skipped_blank=7),
            m["rows_left_out"].update(null=1, blank=7),
        ),
        "counts.skipped_null is 1, made again it is 3",
    ),
    "file order": (
        lambda m: m["source"]["files"].reverse(),
        'source.files[0] is "part-2.parquet", made again it is "part-1.parquet"',
    ),
    "vocab_size": (
        lambda m: m["tokenizer"].update(vocab_size=301),
        "tokenizer.vocab_size is 301, made again it is 300",
    ),
    "an unknown field": (
        lambda m: m["counts"].update(duplicates=0),
        "counts.duplicates is 0, made again it is absent",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NAMED)
def test_a_field_that_differs_is_named_with_both_values(world: Path, out: Path, what: str) -> None:
    change, said = NAMED[what]
    edit(out, change)
    assert verify(out) == []
    assert f"{out / MANIFEST}: {said}" in again(world, out).faults


# Other inputs, other versions, other ends.


def test_another_source_or_tokenizer_is_told_before_anything_is_made(
    world: Path, tmp_path: Path
) -> None:
    folder_of(tmp_path / "corpus", count=90)
    other = str(tokenizer_file(tmp_path / "t", byte_level_tokenizer(vocab_size=299)))
    found = reproduce(world / "out", str(tmp_path / "corpus"), other)
    assert found.done == NOTHING and len(found.faults) == 2
    assert "was made from the source ('folder', None, 'sha256:" in found.faults[0]
    assert "part-0.parquet: " in found.faults[0] and "bytes recorded" in found.faults[0]
    assert "was made with the tokenizer" in found.faults[1]
    with pytest.raises(SourceError, match="neither an existing folder nor"):
        reproduce(world / "out", str(tmp_path / "nowhere"), other)
    with pytest.raises(ValueError, match="local source; give it by --source"):
        reproduce(world / "out", None, other)
    with pytest.raises(ValueError, match="local tokenizer; give it by --tokenizer"):
        reproduce(world / "out", str(world / "corpus"))


def test_an_old_manifest_and_what_is_no_folder_are_told(world: Path, out: Path) -> None:
    (fault,) = again(world, world).faults
    assert "has no metadata.json" in fault
    edit(out, lambda fields: fields["recipe"].update(algorithm=0))
    (fault,) = again(world, out).faults
    assert "made by algorithm version 0" in fault
    edit(out, lambda fields: fields.update(format_version=0))
    (fault,) = again(world, out).faults
    assert "has format 0" in fault


def test_a_folder_of_the_first_format_is_compared_as_far_as_its_manifest_goes(
    world: Path, out: Path
) -> None:
    edit(out, as_first)
    assert verify(out) == []
    faults, notes, _ = again(world, out)
    assert faults == []
    said = "the manifest has format 1, so these fields could not be compared: lanes, reader, rows"
    assert len(notes) == 1 and notes[0].startswith(said)
    edit(out, lambda fields: fields["counts"].update(skipped_null=1, skipped_blank=7))
    assert verify(out) == [] and len(again(world, out).faults) == 2


def test_other_versions_are_noted(world: Path, out: Path) -> None:
    edit(out, lambda fields: fields["measured"]["versions"].update(numpy="1.0", torch="2.0"))
    faults, notes, _ = again(world, out)
    assert faults == [] and len(notes) == 2
    assert notes[0].startswith('measured.versions.numpy is "1.0", here it is "')
    assert notes[1] == 'measured.versions.torch is "2.0", here it is absent'


def test_an_encoder_that_was_wrong_all_along_is_found_by_the_reference(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's own encoder gives the same wrong ids again; only the reference knows better."""
    spoil(monkeypatch, b" 77.")
    prepare(small_recipe(world), tmp_path / "out", options=PrepareOptions(encoder="gigatoken"))
    (fault,) = again(world, tmp_path / "out").faults
    assert f"row 37: {text(77)[:60].encode()!r}) begins with ids" in fault
    assert "but the reference gives" in fault and "--encoder tokenizers" in fault


def test_an_encoder_that_loses_a_document_here_writes_nothing_into_the_folder(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run keeps such a document as evidence; a comparison has no folder of its own for it."""
    prepare(small_recipe(world), tmp_path / "out", options=PrepareOptions(encoder="gigatoken"))
    before = snapshot(tmp_path)
    spoil(monkeypatch, b" 77.", instead=b"")
    with seam() as watched, pytest.raises(EncoderMismatch, match="only the fast encoder"):
        again(world, tmp_path / "out")
    assert watched.names == [] and snapshot(tmp_path) == before


def spoil(monkeypatch: pytest.MonkeyPatch, ending: bytes, instead: bytes = b"the wind") -> None:
    """The fast engine gives texts with this ending the ids of another text."""
    real = gigatoken_rs.load_hf_json

    class Spoiled:
        def __init__(self, fields: str) -> None:
            self._engine = real(fields)

        def encode_batch(self, texts: list[bytes]) -> Any:
            return self._engine.encode_batch(
                [instead if text.endswith(ending) else text for text in texts]
            )

    monkeypatch.setattr(gigatoken_rs, "load_hf_json", Spoiled)
    # The document must not be among the first, which every run compares.


def test_an_interrupted_comparison_ends_its_threads_and_leaves_nothing(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, threads = snapshot(world), threading.active_count()

    def stop(progress: LaneProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        again(world, on_progress=stop)
    assert snapshot(world) == before and threading.active_count() == threads
    monkeypatch.setattr("pipeline_lib.progress.ProgressReporter.__call__", lambda *_: stop(*_[1:]))
    assert main([*command(world), "--reproduce"]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err


def command(world: Path) -> list[str]:
    return [
        "verify", str(world / "out"),
        "--source", str(world / "corpus"), "--tokenizer", str(world / "tokenizer"),
    ]  # fmt: skip


def test_the_command_shows_faults_and_says_how_it_went(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command(world), "--reproduce"]) == 0
    shown = capsys.readouterr().out
    assert "112 documents with 3,166 tokens were made again" in shown and "all is well" in shown
    for name in ("corpus", "tokenizer"):
        (tmp_path / name).symlink_to(world / name)
    shutil.copytree(world / "out", tmp_path / "out")
    rewrite(tmp_path / "out", partial(copied, one=90, other=1))
    edit(tmp_path / "out", lambda fields: fields["measured"].update(code_sha256="0"))
    assert main(command(tmp_path)) == 1
    capsys.readouterr()
    assert main([*command(tmp_path), "--reproduce"]) == 1
    shown = capsys.readouterr().out
    assert "FAULT" in shown and ": train document 90 (" in shown
    assert 'NOTE measured.code_sha256 is "0"' in shown and "not as it should be" in shown


def test_a_hub_dataset_is_made_again_without_naming_it(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_dataset(hub, "acme/docs", {"en": {"train": [[{"text": row} for row in rows(120)]]}})
    publish_tokenizer(hub, "acme/tok", tokenizer_bytes())
    recipe = small_recipe(tmp_path, dataset="acme/docs", config="en", tokenizer="acme/tok")
    out = tmp_path / "out"
    prepare(recipe, out, options=REFERENCE)
    assert reproduce(out).faults == reproduce(out).notes == []
    assert main(["verify", str(out), "--reproduce"]) == 0
    faults, notes, _ = reproduce(out, tokenizer=str(tmp_path / "tokenizer"))
    assert faults == [] and "that acme/tok holds the same is not looked up" in notes[0]
    (fault,) = reproduce(out, str(tmp_path / "corpus")).faults
    assert "was made from the source ('acme/docs', 'en', '" in fault
    rewrite(out, partial(exchange, one=50, other=5))
    faults = reproduce(out).faults
    assert any(": train document 50 (en/" in fault for fault in faults), faults
