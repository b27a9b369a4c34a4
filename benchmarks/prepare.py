"""From parquet to tokens on disk: this project beside what else one might use.

Every tool is a process of its own, start-up included, on the same files with the same tokenizer.
Slow tools get the first files only: compare tokens per second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import outputs
from inputs import Inputs
from measure import Run, Way, in_turns
from tables import Row, median, megabytes, show, spread


class Tool(NamedTuple):
    """A name in ``programs/tools.py`` ("" for the project), and what reads and judges tokens."""

    name: str
    read: Callable[[Path], Any]
    judge: Callable[..., str] = outputs.verdict
    peer: bool = False
    slow: bool = False


OURS = "this project"
TOOLS = {
    OURS: Tool("", outputs.shards),
    "bare script, gigatoken": Tool("bare", outputs.one_file, outputs.verdict_on_number),
    "nanoGPT recipe, tiktoken": Tool("nanogpt", outputs.one_file, peer=True),
    "tokenizers in batches": Tool("reference", outputs.one_file, slow=True),
    "datatrove, 2 workers": Tool("datatrove", outputs.datatrove, peer=True, slow=True),
    "litdata, 2 workers": Tool("litdata", outputs.litdata, peer=True, slow=True),
}


@dataclass
class Job:
    """A tool, its inputs, the documents that it should write, and whether it did."""

    tool: Tool
    inputs: Inputs
    wanted: outputs.Content
    verdict: str = ""

    @property
    def way(self) -> Way:
        """What gives its command."""
        if not self.tool.name:
            return self.inputs.prepare
        return partial(self.inputs.program, "tools", tool=self.tool.name, peer=self.tool.peer)

    def look(self, output: Path) -> None:
        """Compare what was written with what was wanted."""
        self.verdict = self.tool.judge(self.tool.read(output), self.inputs.end_id, self.wanted)

    def speed(self, runs: Sequence[Run]) -> float:
        """Tokens in a second of wall time."""
        return self.wanted.tokens / median(run.wall for run in runs)


def prepare(inputs: Inputs) -> None:
    """Run all tools in turns, compare what they wrote, and show the table."""
    tools = {name: tool for name, tool in TOOLS.items() if inputs.peers or not tool.peer}
    contents = {some: outputs.expected(some) for some in (inputs, inputs.first_files())}
    every, first = (partial(Job, inputs=some, wanted=contents[some]) for some in contents)
    jobs = {name: first(tool) if tool.slow else every(tool) for name, tool in tools.items()}
    ways = {name: job.way for name, job in jobs.items()}
    runs = in_turns(ways, inputs.repeat, lambda name, output: jobs[name].look(output))
    (documents, tokens, _), ours = contents[inputs], jobs[OURS].speed(runs[OURS])
    size = megabytes(sum(path.stat().st_size for path in inputs.files))
    title = f"prepare: {documents:,} documents, {tokens:,} tokens with end tokens, {size} MB of "
    title += f"parquet; medians of {inputs.repeat} (lowest-highest)"
    show(title, [_row(name, jobs[name], mine, ours) for name, mine in runs.items()])


def _row(name: str, job: Job, runs: Sequence[Run], ours: float) -> Row:
    return {
        "way": name,
        "files": f"{len(job.inputs.files)}",
        "tokens": f"{job.wanted.tokens:,}",
        "wall s": spread(run.wall for run in runs),
        "M tokens/s": f"{job.speed(runs) / 1e6:.2f}",
        "CPU s": f"{median(run.cpu for run in runs):.1f}",
        "peak anon MB": megabytes(median(run.peak for run in runs)),
        "speed against ours": f"{job.speed(runs) / ours:.3f}",
        "others' cores": f"{median(run.others for run in runs):.2f}",
        "ids": job.verdict,
    }
