"""Of a folder the training split is read, each file once, and all else is named."""

import os
import shutil
from pathlib import Path

import pytest
from corpora import write_parquet

from pipeline_lib.errors import HubError, SourceError
from pipeline_lib.sources.folder_files import files_to_read
from pipeline_lib.sources.resolve import resolve_parquet_files


def folder_with(root: Path, *names: str) -> Path:
    """A folder of small files, each with text of its own."""
    for number, name in enumerate(names):
        if name.lower().endswith(".parquet"):
            write_parquet(root / name, [f"text {number}"])
        else:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(name)
    return root


def test_files_of_other_splits_are_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["train-0.parquet", "train-1.parquet", "test-0.parquet", "data/validation/a.parquet"]
    assert files_to_read(folder_with(tmp_path, *names)) == names[:2]
    (line,) = caplog.messages
    assert "test-0.parquet (split test)" in line
    assert "data/validation/a.parquet (split validation)" in line


def test_files_that_describe_the_others_are_left_out_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert files_to_read(folder_with(tmp_path, "a.parquet", "manifest.json")) == ["a.parquet"]
    assert caplog.messages == []


def test_names_that_only_contain_a_word_for_a_split_are_all_read(tmp_path: Path) -> None:
    names = ["contest.parquet", "latest.parquet", "pretrain-0.parquet"]
    assert files_to_read(folder_with(tmp_path, *names)) == names


def test_the_path_of_the_folder_itself_says_nothing(tmp_path: Path) -> None:
    assert files_to_read(folder_with(tmp_path / "test" / "val", "a.parquet")) == ["a.parquet"]


def test_a_folder_of_other_splits_alone_is_refused_with_their_names(tmp_path: Path) -> None:
    folder_with(tmp_path, "data/test-0.parquet", "data/validation-0.parquet")
    with pytest.raises(SourceError, match=r"no file of the split 'train': data/test-0.* \(split t"):
        files_to_read(tmp_path)


CARD = """---
configs:
- config_name: en
  data_files:
  - {split: train, path: en/*.parquet}
  - {split: test, path: held/*.parquet}
- config_name: de
  data_files: de/**
---
# words
"""


def test_a_card_says_which_files_are_the_training_split(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder_with(tmp_path, "en/a.parquet", "held/b.parquet", "de/x/test.parquet", "train.parquet")
    (tmp_path / "README.md").write_text(CARD)
    assert files_to_read(tmp_path, "en") == ["en/a.parquet"]
    assert "de/x/test.parquet, held/b.parquet, train.parquet (README.md: not train)" in caplog.text
    assert files_to_read(tmp_path, "de") == ["de/x/test.parquet"]
    for config, fault in (
        (None, "several configs and no default: 'en', 'de'"),
        ("fr", "no config"),
    ):
        with pytest.raises(HubError, match=fault):
            files_to_read(tmp_path, config)
    source = resolve_parquet_files(str(tmp_path), "de")
    assert (source.config, len(source.files)) == ("de", 1)


@pytest.mark.parametrize(
    "text", ["# words", "---\nlicense: mit\n---\n", "---\nconfigs:\n---\n", ""]
)
def test_a_card_that_lists_no_config_leaves_it_to_the_names(tmp_path: Path, text: str) -> None:
    folder_with(tmp_path, "train.parquet", "test.parquet")
    (tmp_path / "README.md").write_text(text)
    assert files_to_read(tmp_path) == ["train.parquet"]
    with pytest.raises(ValueError, match=r"has no README\.md that lists configs"):
        files_to_read(tmp_path, "en")


def test_a_card_that_is_not_yaml_or_matches_no_file_is_refused(tmp_path: Path) -> None:
    folder_with(tmp_path, "a.parquet")
    (tmp_path / "README.md").write_text("---\na: [\n---\n")
    with pytest.raises(HubError, match=r"is not valid YAML; mend its README\.md"):
        files_to_read(tmp_path)
    (tmp_path / "README.md").write_text("---\nconfigs:\n- {config_name: a, data_files: b/*}\n---\n")
    with pytest.raises(HubError, match=r"match no \.parquet file"):
        files_to_read(tmp_path)


def double(root: Path, how: str) -> None:
    if how == "link":
        (root / "b.parquet").symlink_to(root / "a.parquet")
    elif how == "hard link":
        os.link(root / "a.parquet", root / "b.parquet")
    elif how == "folder":
        (root / "in" / "b").mkdir(parents=True)
        shutil.move(root / "a.parquet", root / "in" / "b" / "a.parquet")
        (root / "a").symlink_to(root / "in")
    else:
        blobs = root / "cache" / "blobs"
        blobs.mkdir(parents=True)
        shutil.move(root / "a.parquet", blobs / "0123")
        for revision in ("aaa", "bbb"):
            folder = root / "cache" / "snapshots" / revision
            folder.mkdir(parents=True)
            (folder / "a.parquet").symlink_to(blobs / "0123")


DOUBLES = {
    "link": "a.parquet and b.parquet",
    "hard link": "a.parquet and b.parquet",
    "folder": "a/b/a.parquet and in/b/a.parquet",
    "Hub cache": "cache/snapshots/aaa/a.parquet and cache/snapshots/bbb/a.parquet",
}


@pytest.mark.parametrize("how", DOUBLES)
def test_two_names_of_one_file_are_refused_with_both(tmp_path: Path, how: str) -> None:
    double(folder_with(tmp_path, "a.parquet"), how)
    with pytest.raises(SourceError, match=f"{DOUBLES[how]} are two names of one file"):
        files_to_read(tmp_path)


def test_a_second_name_in_another_split_is_no_double(tmp_path: Path) -> None:
    folder_with(tmp_path, "train.parquet")
    (tmp_path / "test.parquet").symlink_to(tmp_path / "train.parquet")
    assert files_to_read(tmp_path) == ["train.parquet"]


def test_two_revisions_in_a_hub_cache_are_refused_even_without_a_common_file(
    tmp_path: Path,
) -> None:
    folder_with(tmp_path, "snapshots/aaa/x.parquet", "blobs/0123")
    assert files_to_read(tmp_path) == ["snapshots/aaa/x.parquet"]
    folder_with(tmp_path, "b.parquet", "snapshots/bbb/data/y.parquet")
    with pytest.raises(SourceError, match=r"aaa/x.parquet and .*bbb/data/y.parquet are of 2 revis"):
        files_to_read(tmp_path)


def test_every_other_file_is_named_with_the_reason_why_it_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"{n}.jsonl" for n in range(7)]
    folder_with(tmp_path, "a.parquet", "sub/b.csv", "README.md", ".hidden", "_SUCCESS", *lines)
    shutil.copy(tmp_path / "a.parquet", tmp_path / "part-0")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert files_to_read(tmp_path) == ["a.parquet"]
    (line,) = caplog.messages
    assert line == (
        f"{tmp_path}: not read: 0.jsonl, 1.jsonl, 2.jsonl, 3.jsonl, 4.jsonl and 3 more "
        "(not Parquet); gone (can not be opened); part-0 (Parquet, but not named *.parquet)"
    )


def test_a_folder_of_another_format_says_what_is_there(tmp_path: Path) -> None:
    folder_with(tmp_path, "a.jsonl.zst", "b.txt")
    with pytest.raises(SourceError, match=r"no \*\.parquet file \(a\.jsonl\.zst, b\.txt \(not"):
        files_to_read(tmp_path)


def test_a_folder_that_can_not_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path, "a.parquet", "closed/b.parquet")
    listed = Path.iterdir

    def refusing(path: Path) -> object:  # as for a user without rights; the tests may be root's
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refusing)
    with pytest.raises(SourceError, match=r"closed can not be listed \(.*Permission denied"):
        files_to_read(tmp_path)
