"""The manifest names everything the bytes depend on, and vouches for itself."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from corpora import REFERENCE, small_recipe

from pipeline_lib import digest
from pipeline_lib.corpus import first_format, manifest
from pipeline_lib.corpus.description import summary
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.rejects import REASONS
from pipeline_lib.corpus.verify import verify
from pipeline_lib.errors import DamagedFile
from pipeline_lib.sources.parquet import READ_SETTINGS
from pipeline_lib.storage import atomic


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp("made")
    return folder / "out", prepare(small_recipe(folder), folder / "out", options=REFERENCE)


def test_the_manifest_on_disk_is_what_prepare_returns(made: tuple[Path, Manifest]) -> None:
    assert manifest.load(made[0]) == made[1]
    assert manifest.dtype_of(made[1]) == np.dtype("<u2")


def test_all_that_the_documentation_lists_is_there(made: tuple[Path, Manifest]) -> None:
    assert set(made[1]) == Manifest.__required_keys__ == {
        "format_version", "source", "recipe", "recipe_digest", "source_digest", "split_rule",
        "text_rule", "tokenizer", "dtype", "counts", "train_token_target_reached", "shards",
        "reader", "rows_left_out", "lanes", "unknown_tokens", "content_sha256",
        "measured", "manifest_sha256",
    }  # fmt: skip
    assert set(made[1]["measured"]) == {
        "elapsed_seconds", "train_tokens_per_second", "total_tokens_per_second", "versions",
        "encoders", "code_sha256", "source_mtimes_ns",
        "first_rejected", "decoded_again", "decoded_with_loss",
    }  # fmt: skip
    assert set(made[1]["source"]) >= {"dataset", "config", "revision", "files"}
    shard = made[1]["shards"]["train"][0]
    assert set(shard) == {"file", "tokens", "sha256", "first_document", "first_token", "first_row"}


def test_the_content_digest_covers_all_but_what_was_measured(
    made: tuple[Path, Manifest],
) -> None:
    left_out = ("content_sha256", "measured", "manifest_sha256")
    rest = {name: value for name, value in made[1].items() if name not in left_out}
    assert made[1]["content_sha256"] == digest.of_json(rest)


def test_the_manifest_digest_covers_all_but_itself(made: tuple[Path, Manifest]) -> None:
    rest = {name: value for name, value in made[1].items() if name != "manifest_sha256"}
    assert made[1]["manifest_sha256"] == digest.of_json(rest)


def test_a_changed_measurement_is_found_and_changes_no_content(
    made: tuple[Path, Manifest], tmp_path: Path
) -> None:
    slower = made[1]["measured"] | {"elapsed_seconds": 1e9}
    (tmp_path / MANIFEST).write_text(json.dumps(made[1] | {"measured": slower}))
    with pytest.raises(DamagedFile, match="does not match its own manifest_sha256"):
        manifest.load(tmp_path)
    sealed = manifest.seal(manifest.content_of(made[1]), slower)
    assert sealed["content_sha256"] == made[1]["content_sha256"]


def test_no_path_host_or_time_is_in_what_the_digest_covers(
    made: tuple[Path, Manifest],
) -> None:
    text = json.dumps({k: v for k, v in made[1].items() if k != "measured"})
    assert str(made[0].parent) not in text and "elapsed" not in text and "mtime" not in text


def test_counts_add_up(made: tuple[Path, Manifest]) -> None:
    counts = made[1]["counts"]
    assert (counts["skipped_null"], counts["skipped_blank"]) == (3, 5)
    assert made[1]["rows_left_out"] == {"null": 3, "blank": 5, **dict.fromkeys(REASONS, 0)}
    assert manifest.rows_accounted_for(made[1]) == counts["rows_visited"] == 120
    for split in ("train", "val"):
        tokens = sum(shard["tokens"] for shard in made[1]["shards"][split])
        assert tokens == counts[f"{split}_tokens"]


@pytest.mark.parametrize(
    "change", [{"dtype": "<u4"}, {"counts": {}}, {"content_sha256": "0" * 64}, {"more": 1}]
)
def test_a_manifest_that_was_changed_is_found(
    made: tuple[Path, Manifest], tmp_path: Path, change: dict[str, Any]
) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(made[1] | change))
    with pytest.raises(DamagedFile, match="does not match its own content_sha256"):
        manifest.load(tmp_path)


def test_a_manifest_of_an_earlier_version_is_not_called_changed(
    made: tuple[Path, Manifest], tmp_path: Path
) -> None:
    older = {name: value for name, value in made[1].items() if name != "manifest_sha256"}
    (tmp_path / MANIFEST).write_text(json.dumps(older))
    with pytest.raises(DamagedFile, match="has no manifest_sha256: an earlier version wrote it"):
        manifest.load(tmp_path)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b"{", b'{"a": NaN}', b'{"a": 1e999}'])
def test_what_is_no_manifest_is_damage(tmp_path: Path, data: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(data)
    with pytest.raises(DamagedFile):
        manifest.load(tmp_path)


def test_a_later_format_names_both(tmp_path: Path) -> None:
    fields = {"format_version": 9}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest.seal(fields, {})))
    with pytest.raises(DamagedFile, match="has format 9, this program reads 1 and 2"):
        manifest.load(tmp_path)


def test_a_manifest_of_the_first_format_is_still_read_and_verified(
    made: tuple[Path, Manifest], tmp_path: Path
) -> None:
    folder = shutil.copytree(made[0], tmp_path / "first")
    content: Any = manifest.content_of(made[1])
    later = {"reader", "rows_left_out", "lanes", "unknown_tokens"}
    first = {name: value for name, value in content.items() if name not in later}
    first_measured: Any = {**made[1]["measured"], "encoder": None}
    del first_measured["encoders"]
    sealed: Any = manifest.seal(cast(Any, first | {"format_version": 1}), first_measured)
    atomic.save_json(folder / MANIFEST, sealed)
    assert manifest.load(folder) == sealed and verify(folder) == []
    assert manifest.rows_left_out(sealed) == {"null": 3, "blank": 5}
    assert "120 rows visited" in summary(sealed, folder)


def test_the_reader_of_the_manifest_names_all_that_orders_the_rows(
    made: tuple[Path, Manifest],
) -> None:
    reader, recipe = made[1]["reader"], made[1]["recipe"]
    assert reader["interface"] == "pyarrow.parquet.ParquetFile.iter_batches"
    assert (reader["column"], reader["batch_size"], reader["read"]) == ("text", 16, READ_SETTINGS)
    assert "PCG64(SeedSequence([seed, stream]))" in reader["shuffle"]["algorithm"]
    order, (documents,) = reader["shuffle"]["files"], reader["shuffle"]["documents"]
    assert order == [recipe["seed"], 0] and documents == [recipe["seed"], 1]
    draws = np.random.PCG64(np.random.SeedSequence(order)).random_raw(2).tolist()
    names = sorted(made[1]["source"]["files"])
    for last in (2, 1):  # Fisher-Yates from the end, as the manifest says
        other = draws.pop(0) * (last + 1) >> 64
        names[last], names[other] = names[other], names[last]
    assert names == made[1]["source"]["files"]


def test_an_absent_manifest_is_not_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        manifest.load(tmp_path)


FIELDS: dict[str, Callable[[Any], object]] = {
    "missing required field `shards`": lambda fields: fields.pop("shards"),
    "missing required field `val` - at `$.shards`": lambda fields: fields["shards"].pop("val"),
    "at `$.dtype`": lambda fields: fields.update(dtype=2),
    "at `$.counts.train_tokens`": lambda fields: fields["counts"].update(train_tokens="5"),
    "at `$.shards.train[0].tokens`": lambda f: f["shards"]["train"][0].update(tokens=0.5),
    "at `$.tokenizer.eos_id`": lambda fields: fields["tokenizer"].update(eos_id=None),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_is_missing_or_of_another_type_is_named(
    made: tuple[Path, Manifest], tmp_path: Path, field: str
) -> None:
    content: Any = json.loads(json.dumps(manifest.content_of(made[1])))
    FIELDS[field](content)
    sealed = manifest.seal(content, made[1]["measured"])
    (tmp_path / MANIFEST).write_text(json.dumps(sealed))
    with pytest.raises(DamagedFile, match=re.escape(field)) as error:
        manifest.load(tmp_path)
    assert str(tmp_path / MANIFEST) in str(error.value)


def test_a_field_that_this_version_does_not_know_is_kept(
    made: tuple[Path, Manifest], tmp_path: Path
) -> None:
    content: Any = {**manifest.content_of(made[1]), "colour": "blue"}
    sealed = manifest.seal(content, made[1]["measured"])
    (tmp_path / MANIFEST).write_text(json.dumps(sealed))
    assert manifest.load(tmp_path) == sealed


def test_a_manifest_of_the_first_version_is_met_as_far_as_it_tells(
    made: tuple[Path, Manifest],
) -> None:
    now, first = made[1], cast(Manifest, {**made[1], "format_version": 1})
    content = manifest.content_of(now)
    assert first_format.in_format_of(content, now) == (content, [])
    told, left_out = first_format.in_format_of(content, first)
    assert told.keys() | {*left_out} - {"source.sha256"} == content.keys()
    assert "source.sha256" in left_out and "sha256" not in told["source"]
    assert told["format_version"] == 1 and told["counts"] == content["counts"]


def test_measurements_and_rows_left_out_are_those_of_the_manifests_own_version(
    made: tuple[Path, Manifest],
) -> None:
    now, encoder = made[1], {"name": "a", "version": "1"}
    measured = cast(Any, {**now["measured"], "encoders": [{"name": "b", "version": "2"}, encoder]})
    first = cast(Any, {**now, "format_version": 1, "measured": {"encoder": encoder}})
    assert first_format.measured_in_format_of(measured, now) == measured
    old = first_format.measured_in_format_of(measured, first)
    assert old["encoder"] == encoder and not {"encoders", "source_mtimes_ns"} & old.keys()
    nothing = cast(Any, {**measured, "encoders": []})
    assert first_format.measured_in_format_of(nothing, first)["encoder"] is None
    assert manifest.encoders(first) == [encoder]
    assert manifest.encoders(cast(Any, {**now, "measured": measured})) == measured["encoders"]
    assert manifest.encoders(cast(Any, {**first, "measured": {"encoder": None}})) == []
    assert manifest.rows_left_out(now) == now["rows_left_out"]
    assert {*manifest.rows_left_out(first).values()} == {
        now["counts"]["skipped_null"],
        now["counts"]["skipped_blank"],
    }
    assert manifest.source_seals(first) == {} != manifest.source_seals(now)
