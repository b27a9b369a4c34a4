"""Run every benchmark, or those named with --only, and print their tables.

    python benchmarks/run.py [--corpus FOLDER] [--text-column text] [--tokenizer PATH]
                             [--repeat 3] [--only NAME ...] [--peers | --no-peers]

What is missing is made once and kept in benchmarks/.cache: a corpus of real text, a tokenizer, an
environment for the peers.
"""

import subprocess
import sys
import time

import inputs

BENCHMARKS = ("prepare", "commits", "resume", "memory", "loading", "sft", "flat", "bpe", "fit")


def main() -> None:
    parser = inputs.options("Run the benchmarks and print their tables.")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME",
                        help=f"some of: {', '.join(BENCHMARKS)}")  # fmt: skip
    options = parser.parse_args()
    given = inputs.resolve(options)
    failed = []
    for name in options.only or BENCHMARKS:
        started = time.monotonic()
        print(f"\n## {name}\n", flush=True)
        script = [sys.executable, str(inputs.HERE / f"{name}.py"), *inputs.arguments(given)]
        if subprocess.run(script, cwd=inputs.PROJECT).returncode:
            failed.append(name)
        print(f"{name}: {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
