"""From parquet to tokens on disk: this project beside what else one might use.

Every way runs as a process of its own, start-up included, on the same files with the same
tokenizer; the ways take turns. Slow peers get the first files only: compare tokens per second.
With --long, the two fast ways run on the corpus ten times over too: start-up counts for little
there, but nine tenths of the text are known to the word cache of the encoder, which flatters it.
"""

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import corpus
import inputs
import machine
import numpy as np
import outputs
from tables import median, megabytes, show, spread
from tokenizers import Tokenizer

END = "<|endoftext|>"


class Way(NamedTuple):
    """One way of preparing: its command for an input folder, and how to read what it wrote."""

    name: str
    command: Callable[[Path, Path], list[str | Path]]
    read: Callable[[Path], Iterator[outputs.Tokens]] | None
    files: int | None = None


def main() -> None:
    parser = inputs.options(__doc__ or "")
    parser.add_argument("--long", action="store_true", help="the corpus ten times over too")
    options = parser.parse_args()
    given = inputs.resolve(options)
    print(machine.facts((*machine.PACKAGES, "tiktoken", "datatrove", "litdata")))
    _compare(given, _ways(given), "prepare")
    if options.long:
        long = corpus.repeated(given.corpus, given.column, corpus.TIMES, inputs.CACHE)
        longer = dataclasses.replace(given, corpus=long)
        _compare(longer, _fast_ways(longer), "prepare, a long run")


def _compare(given: inputs.Inputs, ways: list[Way], name: str) -> None:
    end = Tokenizer.from_file(str(given.tokenizer / "tokenizer.json")).token_to_id(END)
    right = outputs.expected(given.files, given.column, given.tokenizer, end)
    verdicts: dict[str, str] = {}
    runs: dict[str, list[machine.Run]] = {way.name: [] for way in ways}
    for _ in range(given.repeat):
        for way in ways:
            target = given.empty("prepared")
            source = given.part(way.files) if way.files else given.corpus
            runs[way.name].append(given.measure(way.command(source, target), target))
            if way.name not in verdicts:
                verdicts[way.name] = _verdict(way, target, right, end)
            shutil.rmtree(target)
    size = sum(path.stat().st_size for path in given.files)
    title = f"{name}: {right[-1].documents:,} documents, {right[-1].tokens:,} tokens with end "
    title += f"tokens, {megabytes(size)} MB of parquet; medians of {given.repeat} (lowest-highest)"
    rows = [
        (*row, f"{median(runs[way.name], lambda run: run.others):.2f}", verdicts[way.name])
        for way, row in zip(ways, _rows(ways, runs, right), strict=True)
    ]
    columns = ("way", "files", "tokens", "wall s", "M tokens/s", "CPU s", "peak anon MB")
    show(title, (*columns, "speed against ours", "others' cores", "ids"), rows)


Command = Callable[[Path, Path], list[str | Path]]


def _program(given: inputs.Inputs, name: str, *, peer: bool = False) -> Command:
    def command(source: Path, target: Path) -> list[str | Path]:
        options = ["--corpus", source, "--column", given.column]
        options += ["--tokenizer", given.tokenizer, "--output", target]
        return given.program(name, *options, peer=peer)

    return command


def _fast_ways(given: inputs.Inputs) -> list[Way]:
    return [
        Way("this project", lambda _, target: given.ours(target), outputs.ours),
        Way("bare script, gigatoken", _program(given, "bare"), None),
    ]


def _ways(given: inputs.Inputs) -> list[Way]:
    slow = min(given.slow_files, len(given.files))
    ways = _fast_ways(given)
    if given.peers:
        nanogpt = _program(given, "nanogpt_recipe", peer=True)
        ways.append(Way("nanoGPT recipe, tiktoken", nanogpt, outputs.one_file))
    loop = _program(given, "reference_batches")
    ways.append(Way("tokenizers in batches", loop, outputs.one_file, slow))
    if given.peers:
        datatrove = _program(given, "datatrove_tokens", peer=True)
        litdata = _program(given, "litdata_tokens", peer=True)
        ways.append(Way("datatrove, 2 workers", datatrove, outputs.datatrove, slow))
        ways.append(Way("litdata, 2 workers", litdata, outputs.litdata, slow))
    return ways


def _verdict(way: Way, target: Path, right: list[outputs.Content], end: int) -> str:
    wanted = right[(way.files or len(right)) - 1]
    if way.read is None:
        ids = np.fromfile(target / "ids.bin", "<u2")
        same = len(ids) == wanted.tokens - wanted.documents
        return "number equal" if same else f"{len(ids):,} ids"
    found = outputs.content(way.read(target), end)
    if found == wanted:
        return "equal"
    return f"differ: {found.documents:,} documents, {found.tokens:,} tokens"


def _rows(
    ways: list[Way], runs: dict[str, list[machine.Run]], right: list[outputs.Content]
) -> Iterator[tuple[object, ...]]:
    speeds = {}
    for way in ways:
        tokens = right[(way.files or len(right)) - 1].tokens
        speeds[way.name] = tokens / median(runs[way.name], lambda run: run.wall) / 1e6
        mine = runs[way.name]
        yield (
            way.name,
            way.files or len(right),
            f"{tokens:,}",
            spread(mine, lambda run: run.wall),
            f"{speeds[way.name]:.2f}",
            f"{median(mine, lambda run: run.cpu):.1f}",
            megabytes(median(mine, lambda run: run.peak)),
            f"{speeds[way.name] / speeds[ways[0].name]:.3f}",
        )


if __name__ == "__main__":
    main()
