"""The command line: exit statuses, one-line messages, and real signals and kills."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from corpora import contents, folder_of, rows, tokenizer_bytes, tokenizer_file, write_parquet
from crashes import flip
from loopback_hub import Hub
from loopback_hub.publish import (
    byte_level_tokenizer,
    parquet_bytes,
    publish_dataset,
    publish_tokenizer,
)

from pipeline_lib.corpus.layout import CHECKPOINT, MANIFEST, PREVIOUS
from pipeline_lib.prepare_data import main

ROOT = Path(__file__).parent.parent
SMALL = ["--shard-tokens", "500", "--shuffle-buffer", "20", "--tokenization-batch-size", "16"]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    folder_of(tmp_path / "corpus")
    tokenizer_file(tmp_path / "tokenizer")
    return tmp_path


def command(folder: Path, *more: str, out: str = "out", small: Sequence[str] = SMALL) -> list[str]:
    return [
        "--output-dir", str(folder / out), "--dataset", str(folder / "corpus"),
        "--tokenizer", str(folder / "tokenizer"), "--val-fraction", "0.2",
        "--encoder", "tokenizers", *small, *more,
    ]  # fmt: skip


def only_resume(folder: Path, *more: str) -> list[str]:
    return ["--output-dir", str(folder / "out"), "--encoder", "tokenizers", "--resume", *more]


def line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of an error message."""
    shown = capsys.readouterr().err.strip().splitlines()
    assert len(shown) == 1, shown
    return shown[0]


def interrupted(folder: Path, batches: int = 4) -> Path:
    """A run of the same options killed in a batch."""
    from crashes import leave_unfinished

    from pipeline_lib.corpus.recipe import Recipe

    recipe = Recipe(
        dataset=str(folder / "corpus"), config=None, tokenizer=str(folder / "tokenizer"),
        val_fraction=0.2, shard_tokens=500, shuffle_buffer=20, tokenization_batch_size=16,
    )  # fmt: skip
    return leave_unfinished(recipe, folder / "out", batches)


def test_a_run_ends_with_a_line_that_gives_documents_tokens_and_folder(
    world: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "pipeline_lib"):
        assert main(command(world)) == 0
    last = caplog.records[-1].getMessage()
    assert last.startswith("train 98 documents, 2,837 tokens; val 14 documents, 329 tokens;")
    assert last.endswith(str(world / "out"))


WRONG = [
    (["--seed", "-1"], "seed is -1"),
    (["--seed", "4294967296"], "seed is 4294967296"),
    (["--seed", "x"], "argument --seed"),
    (["--val-fraction", "1"], "val_fraction is 1.0"),
    (["--val-fraction", "0"], "val_fraction is 0.0"),
    (["--max-documents", "0"], "max_documents is 0"),
    (["--train-tokens", "-3"], "train_tokens is -3"),
    (["--max-documents", "1", "--train-tokens", "1"], "exclude each other"),
    (["--shard-tokens", "0"], "shard_tokens is 0"),
    (["--lanes", "0"], "lanes is 0"),
    (["--checkpoint-interval", "0"], "checkpoint_interval is 0"),
    (["--log-interval", "0"], "log_interval is 0"),
    (["--replay"], "add --resume"),
    (["--output-dir", ".."], "output_dir is '..'"),
    (["--output-dir", "no/.."], "give a folder with a name"),
    (["--output-dir", ""], "give a folder with a name"),
    (["--encoder", "fast"], "argument --encoder"),
    (["--verify", "none"], "argument --verify"),
    (["--nonsense"], "unrecognized arguments"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[" ".join(o) for o, _ in WRONG])
def test_wrong_arguments_are_one_line_and_status_2(
    world: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    try:
        status = main(command(world, *options))
    except SystemExit as stop:  # what argparse itself finds
        status = stop.code  # type: ignore[assignment]
    assert status == 2 and message in line(capsys)
    assert not (world / "out").exists() and not (world / "out.incomplete").exists()


def test_without_an_output_folder_nothing_happens(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "--output-dir" in line(capsys)


def failing(folder: Path, what: str) -> list[str]:
    """Options of a run that the world does not allow."""
    if what == "missing folder":
        return command(folder, "--dataset", str(folder / "nowhere"))
    if what == "no parquet":
        (folder / "empty").mkdir()
        return command(folder, "--dataset", str(folder / "empty"))
    if what == "wrong column":
        return command(folder, "--text-column", "body")
    if what == "numbers":
        (folder / "corpus" / "z.parquet").write_bytes(parquet_bytes([{"text": 1}]))
    if what == "output exists":
        (folder / "out").mkdir()
    if what == "no end token":
        tokenizer_file(folder / "tokenizer", byte_level_tokenizer(special_tokens=()))
    if what == "no tokenizer":
        (folder / "tokenizer" / "tokenizer.json").unlink()
    if what == "cut file":
        path = folder / "corpus" / "part-2.parquet"
        path.write_bytes(path.read_bytes()[:-9])
    if what == "more lanes than files":
        return command(folder, "--lanes", "9")
    return command(folder)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("missing folder", "neither an existing folder nor a Hub dataset"),
        ("no parquet", "holds no *.parquet file"),
        ("wrong column", "0 columns are named `body`"),
        ("numbers", "z.parquet: column `text` is int64, not text"),
        ("output exists", "has no metadata.json"),
        ("no end token", "names no end token"),
        ("no tokenizer", "has no tokenizer.json"),
        ("cut file", "part-2.parquet"),
        ("more lanes than files", "lanes is 9 but the source has 3 files"),
    ],
)
def test_what_the_world_does_not_allow_is_one_line_and_status_1(
    world: Path, capsys: pytest.CaptureFixture[str], what: str, message: str
) -> None:
    assert main(failing(world, what)) == 1
    shown = line(capsys)
    assert shown.startswith("prepare_data: ") and message in shown
    assert not (world / "out.incomplete").exists()


def test_a_dataset_the_hub_does_not_have_is_one_line(
    hub: Hub, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world, "--dataset", "acme/none")) == 1
    assert "acme/none" in line(capsys) and not (world / "out.incomplete").exists()


def test_a_dry_run_shows_everything_and_writes_nothing(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(world.rglob("*"))
    assert main(command(world, "--dry-run")) == 0
    shown = capsys.readouterr().out
    for name in ("recipe_digest", "files", "rows", "tokenizer", "dtype", "disk_bytes_free",
                 "train_shards_at_most_about", "memory_bytes_at_most_about"):  # fmt: skip
        assert name in shown
    assert sorted(world.rglob("*")) == before


def test_a_dry_run_over_a_published_folder_says_that_nothing_would_be_done(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world)) == 0
    before = contents(world)
    capsys.readouterr()
    for options in (only_resume(world, "--dry-run"), command(world, "--dry-run")):
        assert main(options) == 0
        assert "out is already complete; nothing would be done" in capsys.readouterr().out
    assert contents(world) == before


def test_a_dry_run_of_a_resume_finds_the_recorded_source(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(world)
    before = contents(world)
    assert main(only_resume(world, "--dry-run")) == 0
    assert "'shard_tokens': 500" in capsys.readouterr().out
    assert contents(world) == before


def test_options_not_given_come_from_the_checkpoint(world: Path) -> None:
    assert main(command(world, out="golden")) == 0
    interrupted(world)
    assert main(only_resume(world)) == 0
    assert contents(world / "out") == contents(world / "golden")


def test_options_given_again_unchanged_are_fine(world: Path) -> None:
    interrupted(world)
    assert main(command(world, "--resume")) == 0


CHANGED = [
    (["--seed", "9"], "seed: was 1337, is 9"),
    (["--lanes", "2"], "lanes: was 1, is 2"),
    (["--val-fraction", "0.3"], "val_fraction: was 0.2, is 0.3"),
    (["--max-documents", "77"], "max_documents: was 10000, is 77"),
    (["--train-tokens", "77"], "train_tokens: was None, is 77"),
    (["--shuffle-buffer-bytes", "77"], "shuffle_buffer_bytes: was 268435456, is 77"),
]


@pytest.mark.parametrize(("options", "message"), CHANGED, ids=[o[0] for o, _ in CHANGED])
def test_an_option_that_differs_from_the_recorded_one_is_refused_with_both(
    world: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    interrupted(world)
    before = contents(world)
    assert main(only_resume(world, *options)) == 1
    assert message in line(capsys) and contents(world) == before


def test_another_tokenizer_file_is_refused_with_both_digests(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(world)
    tokenizer_file(world / "other", byte_level_tokenizer(vocab_size=280))
    assert main(only_resume(world, "--tokenizer", str(world / "other"))) == 1
    assert "tokenizer_revision: was 'sha256:" in line(capsys)


@pytest.mark.parametrize("name", ["revision", "tokenizer-revision"])
@pytest.mark.parametrize("published", [True, False])
def test_another_digest_of_local_things_is_refused_without_asking_the_hub(
    hub: Hub, world: Path, capsys: pytest.CaptureFixture[str], name: str, published: bool
) -> None:
    if published:
        assert main(command(world)) == 0
    else:
        interrupted(world)
    other = "sha256:" + "0" * 64
    assert main(only_resume(world, f"--{name}", other)) == 1
    shown = capsys.readouterr().err
    assert "sha256:" in shown and other in shown and "is sha256:" in shown.replace("is 's", "is s")
    assert not len(hub.journal)


def test_another_dataset_is_refused_with_both_names(
    hub: Hub, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"train": [[{"text": "a"}]]}})
    interrupted(world)
    assert main(only_resume(world, "--dataset", "acme/docs")) == 1
    assert "part-0.parquet: was" in line(capsys)


def test_resuming_nothing_is_one_line_and_leaves_nothing(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(only_resume(world)) == 1
    assert "no unfinished run" in line(capsys) and not (world / "out.incomplete").exists()


def test_resuming_a_published_run_says_so_and_succeeds(
    world: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert main(command(world)) == 0
    before = contents(world)
    with caplog.at_level("INFO", "pipeline_lib"):
        assert main(only_resume(world)) == 0
        assert main(command(world, "--resume")) == 0
    assert "already complete" in caplog.text and contents(world) == before


def test_damage_is_not_taken_for_absence(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    staging = interrupted(world)
    for name in (CHECKPOINT, PREVIOUS):
        (staging / name).write_bytes(b"")
    before = contents(staging)
    for options in (only_resume(world), command(world), command(world, "--resume")):
        assert main(options) == 1
        assert "out.incomplete" in line(capsys)
    assert contents(staging) == before


def test_a_damaged_snapshot_is_remedied_by_a_replay(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world, out="golden")) == 0
    staging = interrupted(world)
    for path in staging.glob("buffer_*.bin"):
        flip(path, 0)
    assert main(only_resume(world)) == 1
    assert "give --resume --replay" in capsys.readouterr().err
    assert main(only_resume(world, "--replay")) == 0
    assert contents(world / "out") == contents(world / "golden")


def test_verify_tells_sound_from_damaged(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(world)) == 0
    assert main(["verify", str(world / "out")]) == 0
    assert "all is well" in capsys.readouterr().out
    flip(world / "out" / "val_00000.npy", -1)
    assert main(["verify", str(world / "out")]) == 1
    shown = capsys.readouterr().out
    assert "FAULT" in shown and "val_00000.npy" in shown and "not as it should be" in shown


def test_verify_looks_into_the_source_when_asked(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world)) == 0
    check = ["verify", str(world / "out"), "--source", str(world / "corpus")]
    assert main([*check, "--tokenizer", str(world / "tokenizer")]) == 0
    assert main(check) == 2
    assert "give it by --tokenizer" in line(capsys)
    write_parquet(world / "other" / "a.parquet", rows(9))
    assert main([*check[:-1], str(world / "other"), "--tokenizer", str(world / "tokenizer")]) == 1


@pytest.mark.parametrize("name", ["nowhere", "corpus"])
def test_verify_of_what_is_no_published_folder_is_status_1(world: Path, name: str) -> None:
    assert main(["verify", str(world / name)]) == 1


def test_a_hub_dataset_is_prepared_resumed_and_verified(
    hub: Hub, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_dataset(hub, "acme/docs", {"en": {"train": [[{"text": row} for row in rows(120)]]}})
    publish_tokenizer(hub, "acme/tok", tokenizer_bytes())
    names = ["--dataset", "acme/docs", "--config", "en", "--tokenizer", "acme/tok"]
    assert main(command(world, *names)) == 0
    assert main(only_resume(world)) == 0
    assert main(["verify", str(world / "out"), "--source", "acme/docs"]) == 0
    assert json.loads((world / "out" / MANIFEST).read_bytes())["source"]["config"] == "en"


def start(folder: Path, *more: str) -> "subprocess.Popen[str]":
    arguments = [sys.executable, "-m", "pipeline_lib.prepare_data", *more]
    return subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def slow_options(folder: Path, *more: str) -> list[str]:
    """A run of some seconds that commits and reports all the time."""
    quick = ["--checkpoint-interval", "0.0001", "--log-interval", "0.0001"]
    small = ["--shard-tokens", "3000", "--shuffle-buffer", "50", "--tokenization-batch-size", "4"]
    return command(folder, *quick, *more, small=small)


def rows_reported(child: "subprocess.Popen[str]") -> Iterator[int]:
    assert child.stderr is not None
    for text in child.stderr:
        words = text.split()
        if len(words) > 2 and words[2] == "rows,":
            yield int(words[1].replace(",", ""))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    folder_of(tmp_path / "corpus", 3_000)
    tokenizer_file(tmp_path / "tokenizer")
    return tmp_path


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_commits_and_ends_with_its_status(
    large: Path, signum: signal.Signals, status: int
) -> None:
    with start(large, *slow_options(large)) as child:
        next(rows_reported(child))
        child.send_signal(signum)
        assert child.stderr is not None
        last = child.stderr.read().strip().splitlines()[-1]
    assert child.returncode == status
    assert last.startswith(f"prepare_data: stopped by signal {int(signum)} after ")
    fields = json.loads((large / "out.incomplete" / CHECKPOINT).read_bytes())
    assert 0 < fields["source_rows_visited"] < 3_000 and not fields["finished"]


def test_the_real_command_killed_at_random_instants_ends_in_the_same_bytes(large: Path) -> None:
    golden = [*slow_options(large, "--checkpoint-interval", "60"), "--output-dir"]
    assert main([*golden, str(large / "golden")]) == 0
    dice, kills = random.Random(5), 0
    options = slow_options(large)
    while kills < 3:
        resume = ["--resume"] if (large / "out.incomplete" / CHECKPOINT).exists() else []
        with start(large, *options, *resume) as child:
            wanted = dice.randrange(20, 500)
            first = next(rows_reported(child))
            for found in rows_reported(child):
                if found > first + wanted:
                    child.kill()
                    break
        assert child.returncode == -signal.SIGKILL
        kills += 1
    with start(large, *options, "--resume", "--checkpoint-interval", "60") as child:
        child.communicate()
    assert child.returncode == 0
    assert contents(large / "out") == contents(large / "golden")


def test_closed_streams_take_nothing_from_the_result(world: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh"]
    arguments = [sys.executable, "-m", "pipeline_lib.prepare_data", *command(world)]
    assert subprocess.run([*closed, *arguments], cwd=ROOT).returncode == 0
    assert main(["verify", str(world / "out")]) == 0
    assert subprocess.run([*closed, *arguments], cwd=ROOT).returncode == 1


def test_a_log_that_can_not_be_written_changes_no_status_but_an_answer_does(world: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("only Linux has a device that is always full")
    run = [sys.executable, "-m", "pipeline_lib.prepare_data"]
    with Path("/dev/full").open("w") as full:
        for status in (0, 1):
            found = subprocess.run([*run, *command(world)], cwd=ROOT, stderr=full).returncode
            assert found == status
        check = [*run, "verify", str(world / "out")]
        assert subprocess.run(check, cwd=ROOT, stdout=full, stderr=full).returncode == 1
    assert main(["verify", str(world / "out")]) == 0


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "utf-16"])
def test_names_that_a_terminal_can_not_spell_are_escaped(world: Path, encoding: str) -> None:
    odd = os.fsdecode("ünï 語 ".encode() + b"\xff")
    shown = {}
    for arguments in (command(world, out=odd), ["verify", str(world / odd)]):
        done = subprocess.run(
            [sys.executable, "-m", "pipeline_lib.prepare_data", *arguments],
            cwd=ROOT, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding},
        )  # fmt: skip
        assert done.returncode == 0 and b"Traceback" not in done.stderr
        shown[arguments[0]] = done.stdout.decode(encoding)
    name = r"\xfcn\xef \u8a9e \udcff" if encoding == "ascii" else r"ünï 語 \udcff"
    assert f"{name}: all is well" in shown["verify"]


IMPORTS = """
import sys
from pipeline_lib.prepare_data import main
status = main(sys.argv[1:])
heavy = {"torch", "transformers", "datasets", "ray", "pandas", "matplotlib", "IPython"}
print(status, sorted(heavy & set(sys.modules)))
"""


def test_the_command_loads_neither_torch_nor_transformers_nor_datasets(world: Path) -> None:
    arguments = [sys.executable, "-c", IMPORTS, *command(world)]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "0 []\n"


def test_help_needs_no_network_and_no_output(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    for option in ("--dataset", "--train-tokens", "--resume", "--replay", "--dry-run", "--lanes"):
        assert option in shown
    assert os.environ["HF_ENDPOINT"].startswith("http://127.0.0.1")
