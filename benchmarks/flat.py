"""What must not grow with the data: opening complete caches, and memory while they are made.

Conversations are cut from the corpus, N of them and ten times N, every one numbered. Each step
is a process of its own: rows of a saved data set are normalised, the three caches of the
training datasets are built from them, and then opened again, complete. Ten times the rows take
ten times as long to make; memory and opening should stay where they are.
"""

import json
import shutil

import corpus
import inputs
import machine
from tables import median, megabytes, show

COUNT = 20_000
WIDTH = 1_024
STEPS = ("normalise", "build", "open")


def main() -> None:
    parser = inputs.options(__doc__ or "")
    parser.add_argument("--count", type=int, default=COUNT, help=f"N (default {COUNT:,})")
    options = parser.parse_args()
    given = inputs.resolve(options)
    print(machine.facts())
    tokenizer = inputs.trained(given.corpus, given.column, inputs.CHAT_VOCABULARY)
    sizes = {"N": options.count, f"{corpus.TIMES} N": options.count * corpus.TIMES}
    runs: dict[str, dict[str, list[machine.Run]]] = {name: {} for name in sizes}
    for _ in range(given.repeat):
        for name, count in sizes.items():
            folder = given.empty("flat")
            common = ["--corpus", given.corpus, "--column", given.column, "--output", folder]
            common += ["--tokenizer", tokenizer, "--count", str(count), "--width", str(WIDTH)]
            given.measure(given.program("flat_steps", *common, "--step", "rows"))
            for step in STEPS:
                run = given.measure(given.program("flat_steps", *common, "--step", step))
                runs[name].setdefault(step, []).append(run)
            shutil.rmtree(folder)
    _show_memory(runs, options.count, given.repeat)
    _show_opening(runs, given.repeat)


def _show_memory(runs: dict[str, dict[str, list[machine.Run]]], count: int, repeat: int) -> None:
    rows = []
    for step in STEPS:
        base = median(next(iter(runs.values()))[step], lambda run: run.peak)
        for name, steps in runs.items():
            peak = median(steps[step], lambda run: run.peak)
            rows.append((
                f"{step}, {name}",
                megabytes(peak),
                f"{(peak / base - 1) * 100:+.1f} %",
                f"{median(steps[step], lambda run: run.wall):.1f}",
                f"{median(steps[step], lambda run: run.others):.2f}",
            ))  # fmt: skip
    title = f"flat: N = {count:,} conversations, whole processes, medians of {repeat}"
    show(title, ("step", "peak anon MB", "against N", "wall s", "others' cores"), rows)


def _show_opening(runs: dict[str, dict[str, list[machine.Run]]], repeat: int) -> None:
    def opened(run: machine.Run) -> dict[str, float]:
        found: dict[str, float] = json.loads(run.output.splitlines()[-1])
        return found

    sizes = list(runs)
    rows = []
    for what in opened(runs[sizes[0]]["open"][0]):
        small, large = (
            median(runs[name]["open"], lambda run: opened(run)[what]) * 1e3  # noqa: B023
            for name in sizes
        )
        rows.append((what, f"{small:.2f}", f"{large:.2f}", f"{large / small:.2f}"))
    title = f"flat: opening what is complete, milliseconds, medians of {repeat}"
    show(title, ("what", *sizes, "ratio"), rows)


if __name__ == "__main__":
    main()
