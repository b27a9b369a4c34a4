"""The arguments of the two programs that prepare conversations."""

import argparse
from pathlib import Path


def given() -> argparse.Namespace:
    """``chats``, ``tokenizer`` and ``output`` are folders, ``width`` is in tokens."""
    parser = argparse.ArgumentParser()
    for name in ("chats", "tokenizer", "output"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--width", type=int, required=True)
    return parser.parse_args()
