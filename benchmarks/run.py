"""Run every benchmark, or those named with --only, and print their tables."""

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import machine
from alone import commits, memory, resume
from bpe import bpe
from chat_template import template
from fit import fit
from inputs import Inputs, resolve
from loading import loading
from prepare import prepare
from training_datasets import flat, sft

ALL = (prepare, commits, resume, memory, loading, sft, template, flat, bpe, fit)
BENCHMARKS = {benchmark.__name__: benchmark for benchmark in ALL}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--corpus", type=Path, help="folder of parquet files (default: one is built)")
    add("--text-column", default="text", help="column that holds the text, without nulls")
    add("--tokenizer", type=Path, help="folder with a tokenizer.json (default: one is trained)")
    add("--repeat", type=int, default=3, help="runs of each way (default 3)")
    add("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    add("--no-peers", action="store_true", help="leave out what has to be installed")
    options = parser.parse_args()
    inputs = resolve(options)
    print(machine.facts())
    failed = [name for name in options.only or BENCHMARKS if not _succeeds(name, inputs)]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def _succeeds(name: str, inputs: Inputs) -> bool:
    print(f"\n## {name}", flush=True)
    started = time.monotonic()
    try:
        BENCHMARKS[name](inputs)
    except Exception:
        traceback.print_exc()
        return False
    print(f"{name}: {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    return True


if __name__ == "__main__":
    main()
