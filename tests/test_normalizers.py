"""The notebook's normalizers on every sample source: what is trained on is what was answered."""

import itertools
from pathlib import Path
from typing import NamedTuple

import notebook
import numpy as np
import pytest

import download_data
from pipeline_lib.chat.conversation import Reject
from pipeline_lib.chat.messages import read_turns
from pipeline_lib.chat.mixture import mix
from pipeline_lib.chat.normalize import Normalized, normalize
from pipeline_lib.chat.rows import READ_ROWS, PickedRows, open_rows
from pipeline_lib.chat.turns import tidy
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.token_caches.trained_tokenizer import train_tokenizer
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS, IM_END
from pipeline_lib.tokenization.tokenizer import Tokenizer
from pipeline_lib.training.chat_datasets import DPODataset, SFTDataset

MAX_LEN = 512
LIMIT = 500
"""Rows of each source: every reason to reject or to change a row that its sample has is in them."""


class Prepared(NamedTuple):
    """The sample, normalised by the notebook's cells, and a tokenizer trained on it."""

    normalized: Normalized
    tokenizer: Tokenizer
    site: CacheOptions


@pytest.fixture(scope="module")
def prepared(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    site = CacheOptions(tmp_path_factory.mktemp("cache"))
    rows = {n: open_rows(sample / n, source) for n, source in download_data.DATASETS.items()}
    choice = {"seed": 3, "val_fraction": 0.05, "limit": LIMIT}
    normalized = normalize(rows, notebook.normalizers(), site, **choice)
    mixture = mix(normalized.train, {}, seed=3)
    return Prepared(normalized, train_tokenizer(mixture, site, vocab_size=600).tokenizer, site)


def answers(turns: list) -> str:
    spoken = (t for t in turns if t["role"] == "assistant")
    return "".join(t["content"] + IM_END * (not t.get("cut")) for t in spoken)


def test_what_an_sft_row_trains_on_is_exactly_the_assistant_turns(prepared: Prepared) -> None:
    dataset = SFTDataset(
        prepared.normalized.train,
        prepared.tokenizer,
        prepared.site,
        max_len=MAX_LEN,
        documents=True,
    )
    remaining = [answers(turns) for turns in prepared.normalized.train]
    place = 0
    for row in range(len(dataset)):
        item = dataset[row]
        trained = prepared.tokenizer.decode(item["input_ids"][item["loss_mask"] == 1].tolist())
        place = (
            remaining.index(trained, place) + 1
        )  # rows keep their order; dropped ones are skipped
    dropped = len(remaining) - len(dataset)
    assert 0 <= dropped < 0.05 * len(remaining)


def test_every_source_keeps_most_of_its_rows_and_names_every_reject(prepared: Prepared) -> None:
    for name, report in prepared.normalized.reports.items():
        assert report.train > 0, name
        assert report.train + report.val + report.rejected == report.rows, name
        assert report.rejected <= 0.1 * report.rows, name


def test_control_marks_typed_by_users_stay_text(prepared: Prepared) -> None:
    dataset = SFTDataset(
        prepared.normalized.train, prepared.tokenizer, prepared.site, max_len=MAX_LEN
    )
    typed = [
        turns
        for turns in prepared.normalized.train
        if any(mark in turn["content"] for turn in turns for mark in CONTROL_TOKENS)
    ]
    assert typed
    marks = prepared.tokenizer.token_id("<|im_start|>")
    starts = sum(int((dataset[row]["input_ids"] == marks).sum()) for row in range(len(dataset)))
    kept = set(range(len(dataset)))
    assert starts >= len(kept)
    assert starts <= sum(len(turns) for turns in prepared.normalized.train)


def test_prompts_of_a_pair_are_equal_and_answers_differ(prepared: Prepared) -> None:
    dataset = DPODataset(
        prepared.normalized.train, prepared.tokenizer, prepared.site, max_len=MAX_LEN
    )
    for row in range(0, len(dataset), 7):
        chosen, chosen_mask, rejected, rejected_mask = (side.numpy() for side in dataset[row])
        prompt = int(np.argmax(chosen_mask))
        assert (chosen[:prompt] == rejected[:prompt]).all()
        assert int(np.argmax(rejected_mask)) == prompt
        assert not np.array_equal(chosen, rejected)


def tidied(messages: list) -> list:
    try:
        return list(tidy(read_turns(messages)))
    except Reject:
        return []


def test_trees_give_real_pairs_and_lose_no_turn_of_their_best_path(
    prepared: Prepared, sample: Path
) -> None:
    source = download_data.DATASETS["oasst2"]
    rows = PickedRows("oasst2", open_rows(sample / "oasst2", source), 3, -1)
    blocks = (rows.block(start, start + READ_ROWS) for start in range(0, len(rows), READ_ROWS))
    whole = [tidied(row["messages"]) for block in blocks for row in block]
    normalized, pairs = prepared.normalized, []
    for split in (normalized.train, normalized.val):
        ends = dict(zip(split.counts, itertools.accumulate(split.counts.values()), strict=True))
        places = range(ends["oasst2"] - split.counts["oasst2"], ends["oasst2"])
        assert all(split[place] in whole for place in places)
        pairs += [pair for place in places if (pair := split.pair(place))]
    assert len(pairs) > 200 and sum(len(pair.prompt) > 1 for pair in pairs) > 100


def test_no_text_is_in_both_splits(prepared: Prepared) -> None:
    def questions(split: list) -> set[str]:
        first = (next((t for t in turns if t["role"] == "user"), turns[0]) for turns in split)
        return {turn["content"].strip() for turn in first}

    both = questions(prepared.normalized.train) & questions(prepared.normalized.val)
    assert not both
