"""From conversations to training datasets: beside ``datasets.map``, and as the number grows."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from cache import clear, scratch
from conversations import NAME, save_rows, stored
from inputs import CONVERSATION_IDS, TIMES, Inputs
from internals import TEMPLATE
from measure import Run, in_turns, measure
from tables import Row, change, median, megabytes, show, spread

from pipeline_lib import CacheOptions, SFTDataset, load_tokenizer

COUNT, WIDTH = 20_000, 1_024
"""Conversations, and tokens of a row in the datasets that are made of them."""
OURS, MAP = "this project, SFTDataset", "datasets.map, chat template"
SIZES = {"N": COUNT, f"{TIMES} N": TIMES * COUNT}
STEPS = ("normalise", "build", "open")
Samples = list[tuple[bytes, bytes]]
"""Ids and mask of each conversation that fits, as bytes."""
Steps = dict[tuple[str, str], list[Run]]
"""Runs by step and size."""


def sft(inputs: Inputs) -> None:
    """Conversations of two to six turns, from disk to token ids with loss masks.

    The project builds the cache of ``SFTDataset``; the other way is ``datasets.map(num_proc=2)``
    with ``apply_chat_template`` and assistant masks. Times are of the building itself, without
    imports; the whole process stands beside. Ids and masks of all conversations are compared.
    """
    folder, tokenizer = scratch(NAME), inputs.trained(CONVERSATION_IDS)
    save_rows(folder, inputs.texts(), COUNT)
    conversations = stored(folder)
    samples: dict[str, Samples] = {}

    def look(name: str, output: Path) -> None:
        if name == MAP:
            samples[name] = _map_samples(output)
        else:
            found = load_tokenizer(tokenizer), CacheOptions(output)
            samples[name] = _our_samples(SFTDataset(conversations, *found, max_len=WIDTH))

    way = partial(inputs.program, tokenizer=tokenizer)
    ours = partial(way, "dataset_steps", step="sft", conversations=folder, width=WIDTH)
    other = partial(way, "tools", tool="template_map", rows=folder / NAME, template=TEMPLATE)
    runs = in_turns({OURS: ours, MAP: other}, inputs.repeat, look)
    clear(folder)
    title = f"sft: {COUNT:,} conversations; {_verdict(samples[OURS], samples[MAP])}; "
    title += f"medians of {inputs.repeat} (lowest-highest)"
    show(title, [_sft_row(name, mine, runs[OURS]) for name, mine in runs.items()])


def _our_samples(data: SFTDataset) -> Samples:
    samples = []
    for row in range(len(data)):
        sample = data[row]
        real = sample["attention_mask"] == 1
        ids, mask = (sample[name][real].numpy() for name in ("input_ids", "loss_mask"))
        samples.append((ids.astype("<i4").tobytes(), mask.astype("<i1").tobytes()))
    return samples


def _map_samples(output: Path) -> Samples:
    table = pq.read_table(output / "rows.parquet")
    both = zip(table["input_ids"].to_pylist(), table["assistant_masks"].to_pylist(), strict=True)
    fitting = ((ids, mask) for ids, mask in both if len(ids) <= WIDTH)
    return [(np.array(ids, "<i4").tobytes(), bytes(mask)) for ids, mask in fitting]


def _verdict(ours: Samples, others: Samples) -> str:
    if len(ours) != len(others):
        return f"{len(ours):,} rows against {len(others):,}"
    equal = sum(mine == other for mine, other in zip(ours, others, strict=True))
    tokens = sum(len(mask) for _, mask in others) / len(others)
    fit = f"{len(others):,} fit {WIDTH:,} tokens ({tokens:.0f} on average)"
    return f"{fit}, ids and masks equal in {equal:,}"


def _sft_row(name: str, runs: Sequence[Run], ours: Sequence[Run]) -> Row:
    seconds, base = (median(run.report["seconds"] for run in some) for some in (runs, ours))
    return {
        "way": name,
        "build s": spread(run.report["seconds"] for run in runs),
        "conversations/s": f"{COUNT / seconds:,.0f}",
        "speed against ours": f"{base / seconds:.3f}",
        "process s": f"{median(run.wall for run in runs):.1f}",
        "peak anon MB": megabytes(median(run.peak for run in runs)),
        "others' cores": f"{median(run.others for run in runs):.2f}",
    }


def flat(inputs: Inputs) -> None:
    """What must not grow with the data: opening complete caches, and memory while they are made.

    There are N conversations and ten times N. Each step is a process of its own: rows of a saved
    data set are normalised, the caches of the three training datasets are built, and then all are
    opened again, complete. Ten times the rows take ten times as long to make; memory and opening
    should stay where they are.
    """
    tokenizer = inputs.trained(CONVERSATION_IDS)
    runs: Steps = {(step, size): [] for step in STEPS for size in SIZES}
    for _ in range(inputs.repeat):
        for size, count in SIZES.items():
            folder = scratch(NAME)
            save_rows(folder, inputs.texts(), count)
            way = partial(inputs.program, "dataset_steps", tokenizer=tokenizer, width=WIDTH)
            for step in STEPS:
                command = way(step=step, conversations=folder, output=folder / "cache")
                runs[step, size].append(measure(command))
            clear(folder)
    title = f"flat: N = {COUNT:,} conversations, whole processes, medians of {inputs.repeat}"
    show(title, [_memory_row(runs, step, size) for step in STEPS for size in SIZES])
    title = f"flat: opening what is complete, milliseconds, medians of {inputs.repeat}"
    show(title, [_opening_row(runs, what) for what in runs["open", "N"][0].report])


def _memory_row(runs: Steps, step: str, size: str) -> Row:
    mine = runs[step, size]
    peak, base = (median(run.peak for run in some) for some in (mine, runs[step, "N"]))
    return {
        "step": f"{step}, {size}",
        "peak anon MB": megabytes(peak),
        "against N": change(peak, base),
        "wall s": f"{median(run.wall for run in mine):.1f}",
        "others' cores": f"{median(run.others for run in mine):.2f}",
    }


def _opening_row(runs: Steps, what: str) -> Row:
    times = {size: median(run.report[what] for run in runs["open", size]) for size in SIZES}
    small, large = times.values()
    shown = {size: f"{seconds * 1e3:.2f}" for size, seconds in times.items()}
    return {"what": what, **shown, "ratio": f"{large / small:.2f}"}
