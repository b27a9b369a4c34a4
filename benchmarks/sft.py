"""20,000 conversations of two to six turns, from disk to token ids with loss masks.

The project builds the cache of ``SFTDataset``; the other way is ``datasets.map(num_proc=2)`` with
``apply_chat_template(..., return_assistant_tokens_mask=True)`` and an equal template. Times are
of the building itself, without imports; the whole process stands beside. Ids and masks of all
conversations are compared.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import corpus
import inputs
import machine
import numpy as np
import pyarrow.parquet as pq
from tables import median, megabytes, show, spread

COUNT = 20_000
WIDTH = 1_024


def main() -> None:
    given = inputs.resolve(inputs.options(__doc__ or "").parse_args())
    print(machine.facts())
    tokenizer = inputs.trained(given.corpus, given.column, inputs.CHAT_VOCABULARY)
    chats = _chats(given)
    ways = {"this project, SFTDataset": "sft_ours", "datasets.map, chat template": "sft_template"}
    runs: dict[str, list[machine.Run]] = {name: [] for name in ways}
    verdict = ""
    for _ in range(given.repeat):
        for name, program in ways.items():
            target = given.empty(program)
            options = ["--chats", chats, "--tokenizer", tokenizer, "--output", target]
            options += ["--width", str(WIDTH)]
            runs[name].append(given.measure(given.program(program, *options), target))
        verdict = verdict or _compared(given)
    rows = []
    for name, mine in runs.items():
        seconds = median(mine, _seconds)
        rows.append((
            name,
            spread(mine, _seconds),
            f"{COUNT / seconds:,.0f}",
            f"{median(next(iter(runs.values())), _seconds) / seconds:.3f}",
            f"{median(mine, lambda run: run.wall):.1f}",
            megabytes(median(mine, lambda run: run.peak)),
            f"{median(mine, lambda run: run.others):.2f}",
        ))  # fmt: skip
    columns = ("way", "build s", "conversations/s", "speed against ours", "process s")
    title = f"sft: {COUNT:,} conversations; {verdict}; medians of {given.repeat} (lowest-highest)"
    show(title, (*columns, "peak anon MB", "others' cores"), rows)
    for program in ways.values():
        shutil.rmtree(given.work / program)


def _seconds(run: machine.Run) -> float:
    return float(json.loads(run.output.splitlines()[-1])["seconds"])


def _chats(given: inputs.Inputs) -> Path:
    """Conversations cut from the corpus, as JSON lines and in both stored forms, made once."""
    folder = inputs.CACHE / f"chats-{COUNT}-{corpus.label(given.corpus)}"
    if (folder / "stored.txt").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    pieces = _pieces(given)
    with (folder / "chats.jsonl").open("w", encoding="utf-8") as out:
        for number in range(COUNT):
            roles = ["user", "assistant"] * (1 + number % 3)
            messages = [{"role": role, "content": next(pieces)} for role in roles]
            out.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")
    given.measure(given.program("sft_store", folder))
    return folder


def _pieces(given: inputs.Inputs) -> Iterator[str]:
    """Stripped pieces of 10 to 120 words, at most 1,200 characters."""
    number = 0
    for text in corpus.some_texts(given.corpus, given.column, 1 << 40):
        words = text.split(" ")
        while words:
            size = 10 + (number * 37) % 111
            piece = " ".join(words[:size])[:1_200].strip()
            words, number = words[size:], number + 1
            if piece:
                yield piece


def _compared(given: inputs.Inputs) -> str:
    """How many conversations have equal ids and equal masks in both results."""
    (cache,) = (given.work / "sft_ours").glob("sft-*")
    lengths = np.fromfile(cache / "sft_len.bin", "<i4")
    ids = np.memmap(cache / "sft_ids.bin", "<i4", "r").reshape(-1, WIDTH)
    mask = np.memmap(cache / "sft_mask.bin", "<i1", "r").reshape(-1, WIDTH)
    other = pq.read_table(given.work / "sft_template" / "rows.parquet")
    rows = zip(other["input_ids"].to_pylist(), other["assistant_masks"].to_pylist(), strict=True)
    fitting = [row for row in rows if len(row[0]) <= WIDTH]
    if len(fitting) != len(lengths):
        return f"{len(lengths):,} rows against {len(fitting):,}"
    equal = sum(
        ids[row, : lengths[row]].tolist() == right and mask[row, : lengths[row]].tolist() == trained
        for row, (right, trained) in enumerate(fitting)
    )
    mean = sum(len(row[0]) for row in fitting) / len(fitting)
    found = f"{len(fitting):,} fit {WIDTH:,} tokens ({mean:.0f} on average)"
    return f"{found}, ids and masks equal in {equal:,}"


if __name__ == "__main__":
    main()
