"""A fast encoder that is wrong about one text."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gigatoken import gigatoken_rs


def spoil_gigatoken(monkeypatch: pytest.MonkeyPatch, bad: bytes) -> None:
    """Have the library itself give another first id for one text."""
    load = gigatoken_rs.load_hf_json

    class Engine:
        def __init__(self, source: str) -> None:
            self._engine = load(source)

        def encode_batch(self, texts: list[bytes]) -> Any:
            layout = self._engine.encode_batch(texts).layout
            offsets = np.array(layout.offsets.data)
            ids = np.array(layout.content.data)
            for index in [n for n, text in enumerate(texts) if text == bad]:
                ids[offsets[index]] ^= 1
            found = SimpleNamespace(
                offsets=SimpleNamespace(data=offsets), content=SimpleNamespace(data=ids)
            )
            return SimpleNamespace(layout=found)

    monkeypatch.setattr(gigatoken_rs, "load_hf_json", Engine)
