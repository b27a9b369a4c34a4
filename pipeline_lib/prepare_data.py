"""The command line of the shard preparer.

    python -m pipeline_lib.prepare_data --output-dir DIR [--dataset REPO|FOLDER] ...
    python -m pipeline_lib.prepare_data verify DIR [--source REPO|FOLDER] [--reproduce]

Exit status: 0 done, 2 wrong arguments, 130 / 143 interrupted by SIGINT / SIGTERM after a
commit, 1 anything else.
"""

import argparse
import dataclasses
import gc
import logging
import os
import sys
from pathlib import Path
from typing import NoReturn, TextIO

if __name__ == "__main__":  # numpy's threads spin when they begin; nothing here needs them
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pipeline_lib import machine
from pipeline_lib.corpus import staging
from pipeline_lib.corpus.description import describe, summary
from pipeline_lib.corpus.layout import absolute_output
from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.pinned import pin
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recipe import DEFAULT_MAX_DOCUMENTS, Recipe, RecipeFields
from pipeline_lib.corpus.recorded import recorded_run
from pipeline_lib.corpus.reproduction import reproduce
from pipeline_lib.corpus.resume_checks import with_changes
from pipeline_lib.corpus.verify import verify
from pipeline_lib.corpus.verify_source import verify_against
from pipeline_lib.engines import ENGINES
from pipeline_lib.errors import Interrupted, NothingToResume, PipelineError
from pipeline_lib.progress import ProgressReporter
from pipeline_lib.tokenization import equality

_LOG = logging.getLogger("pipeline_lib")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage block."""
        self.exit(2, f"{self.prog}: {message}; see --help\n")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    _occupy_streams()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    _LOG.setLevel(logging.INFO)
    try:
        if given[:1] == ["verify"]:
            return _verify(_verify_parser().parse_args(given[1:]))
        return _prepare(_parser().parse_args(given))
    except ValueError as error:
        return _fail(error, 2)
    except Interrupted as stop:
        return _fail(stop, 128 + stop.signum)
    except KeyboardInterrupt:
        return _fail("interrupted before a commit; the last one holds, go on with --resume", 130)
    except (PipelineError, OSError, MemoryError) as error:
        return _fail(error, 1)


def _occupy_streams() -> None:
    """Open the null device in place of a standard stream that is closed.

    Otherwise a data file would get the number of the stream, and the text that is meant for it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _fail(error: object, status: int) -> int:
    text = " ".join(str(error).split()) or type(error).__name__
    _show(f"prepare_data: {text}", sys.stderr)
    return status


def _show(line: str, stream: TextIO | None = None) -> None:
    """Print a line on a stream; characters that its encoding does not have are escaped."""
    stream = stream or sys.stdout
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def _parser() -> argparse.ArgumentParser:
    defaults = {f.name: f.default for f in dataclasses.fields(Recipe)}
    parser = _Parser(
        prog="prepare_data",
        description="Prepare token shards from a pinned Parquet corpus; `verify DIR` checks them.",
    )

    def recipe(name: str, kind: type, text: str) -> None:
        shown = defaults[name]
        note = f" (default {shown})" if shown is not None else ""
        parser.add_argument("--" + name.replace("_", "-"), type=kind, help=text + note)

    parser.add_argument("--output-dir", type=Path, required=True, help="folder to publish")
    recipe("dataset", str, "Hub dataset or folder of Parquet files")
    recipe("config", str, "config of the Hub dataset")
    recipe("revision", str, "branch, tag or commit of the dataset")
    recipe("text_column", str, "column that holds the text")
    recipe("tokenizer", str, "Hub repository, folder or tokenizer.json")
    recipe("tokenizer_revision", str, "branch, tag or commit of the tokenizer")
    recipe("eos_token", str, "token that ends a document, if not the tokenizer's own")
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument(
        "--max-documents",
        type=int,
        help=f"rows to visit; {DEFAULT_MAX_DOCUMENTS} without --all-documents or --train-tokens",
    )
    rows.add_argument(
        "--all-documents",
        dest="max_documents",
        action="store_const",
        const="all",
        help="visit every row of the source",
    )
    recipe("train_tokens", int, "stop after the document that crosses this many train tokens")
    recipe("seed", int, "seed of order and split, 0 to 4294967295")
    recipe("val_fraction", float, "share of documents for validation")
    recipe("shard_tokens", int, "tokens in a shard")
    recipe("shuffle_buffer", int, "documents in the shuffle buffer")
    recipe("shuffle_buffer_bytes", int, "bytes in the shuffle buffer")
    recipe("tokenization_batch_size", int, "rows in a batch")
    recipe("lanes", int, "independent streams")
    _add_options(parser)
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--encoder", choices=equality.KINDS, default="auto", help="default: auto")
    add("--engine", choices=sorted(ENGINES), default="map", help="what runs lanes")
    add("--checkpoint-interval", type=float, default=60.0, help="seconds (default 60)")
    add("--log-interval", type=float, default=10.0, help="seconds (default 10)")
    add("--resume", action="store_true", help="go on with an unfinished run")
    add("--replay", action="store_true", help="with --resume: read the prefix again and compare")
    add("--verify", choices=("all", "recent"), default="all", help="shards to hash on resume")
    add("--dry-run", action="store_true", help="resolve everything, write nothing")


def _verify_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="prepare_data verify", description="Re-check a published folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", help="the Hub dataset or folder it was made from")
    parser.add_argument("--tokenizer", help="the tokenizer it was made with, for --source")
    parser.add_argument(
        "--reproduce",
        action="store_true",
        help="make it again from --source and --tokenizer, and compare every byte and field",
    )
    return parser


def _prepare(given: argparse.Namespace) -> int:
    if not given.log_interval > 0:
        raise ValueError(f"log_interval is {given.log_interval}; give seconds above 0")
    if given.replay and not given.resume:
        raise ValueError("--replay reads the prefix of an unfinished run again; add --resume")
    output = absolute_output(given.output_dir)
    recipe = _resumed_recipe(given, output) if given.resume else Recipe(**_recipe_fields(given))
    if given.dry_run:
        return _dry_run(recipe, output, given.resume)
    with ProgressReporter(given.log_interval) as reporter:
        options = PrepareOptions(
            encoder=given.encoder,
            engine=ENGINES[given.engine],
            checkpoint_interval=given.checkpoint_interval,
            verify=given.verify,
            replay=given.replay,
            on_progress=reporter,
        )
        metadata = prepare(recipe, output, resume=given.resume, options=options)
    _LOG.info("%s", summary(metadata, output, bound_given=given.max_documents is not None))
    return 0


def _dry_run(recipe: Recipe, output: Path, resume: bool) -> int:
    if staging.is_published(output):
        _show(f"{output} is already complete; nothing would be done")
        return 0
    recorded = recorded_run(output) if resume else None
    pinned = pin(recipe, recorded.locations if recorded else None)
    for name, value in describe(pinned, output).items():
        _show(f"{name:28} {value}")
    return 0


def _recipe_fields(given: argparse.Namespace) -> RecipeFields:
    """The fields of the recipe that were given on the command line."""
    names = [field.name for field in dataclasses.fields(Recipe)]
    found = {name: getattr(given, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _resumed_recipe(given: argparse.Namespace, output: Path) -> Recipe:
    """The recorded recipe, with the fields that were given laid over it."""
    recorded = recorded_run(output)
    if recorded is None:
        staging.require_unfinished(output)  # says whether nothing is there or it is damaged
        raise NothingToResume(f"nothing is recorded of a run for {output}")
    return with_changes(recorded.recipe, _recipe_fields(given))


def _verify(given: argparse.Namespace) -> int:
    if given.reproduce:
        faults = _reproduce(given)
    else:
        faults = verify(given.folder, lambda name: _LOG.info("checking %s", name))
        if not faults and given.source:
            faults = _compare_with_source(given)
    for fault in faults:
        _show(f"FAULT {fault}")
    _show(f"{given.folder}: {'not as it should be' if faults else 'all is well'}")
    return 1 if faults else 0


def _reproduce(given: argparse.Namespace) -> list[str]:
    try:
        with ProgressReporter(10.0) as reporter:
            faults, notes, done = reproduce(given.folder, given.source, given.tokenizer, reporter)
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted; nothing was written, so run it again from the start"
        ) from None
    for note in notes:
        _show(f"NOTE {note}")
    _show(f"{given.folder}: {done}")
    return faults


def _compare_with_source(given: argparse.Namespace) -> list[str]:
    faults, done = verify_against(given.folder, given.source, given.tokenizer)
    _show(f"{given.source}: {done}")
    return faults


def _tune_process() -> None:
    """Settings that only a process of its own may change.

    The heap does not grow for hours; no search for cycles runs among the half million objects of a
    tokenizer file; and the stages wait a tenth as long for the interpreter lock.
    """
    machine.keep_heap_small()
    gc.set_threshold(100_000, 50, 50)
    sys.setswitchinterval(0.0005)


def _leave(status: int) -> NoReturn:
    """End at once: everything is durable, and an orderly end of the interpreter costs 0.1 s.

    A line that could not be printed on the standard output makes the status 1; a log may be lost.
    """
    for stream in (sys.stderr, sys.stdout):
        try:
            if stream is not None:  # as it is where the caller closed it
                stream.flush()
        except OSError:
            status = status or int(stream is sys.stdout)
    os._exit(status)


if __name__ == "__main__":
    _tune_process()
    _leave(main())
