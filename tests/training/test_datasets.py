"""What training sees: shapes, values, edges, workers, and the order of batches."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chat_world import (
    control_id,
    numbered_chat,
    stored_conversations,
    tokenizer,
    tokenizer_from_json,
    turns,
    wide_tokenizer,
)
from published_folders import publish
from template_world import family_tokenizer
from torch.utils.data import DataLoader

from pipeline_lib.chat.conversation import Pair
from pipeline_lib.chat.mixture import mix
from pipeline_lib.chat.store import Conversations
from pipeline_lib.chat.turns import document
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.templates.chat_format import chat_format
from pipeline_lib.templates.chatml import render
from pipeline_lib.tokenization.control_tokens import ENDOFTEXT, IM_END, PAD
from pipeline_lib.training.chat_datasets import (
    CachedDataset,
    DPODataset,
    PretrainDataset,
    SFTDataset,
)
from pipeline_lib.training.loader import loader
from pipeline_lib.training.sharded import ShardedTokenDataset
from pipeline_lib.training.token_dataset import TokenDataset

PAIR = Pair(turns("q"), turns("good", first="assistant"), turns("bad", first="assistant"))
KINDS = ("shards", "pretrain", "sft", "dpo")


@pytest.fixture
def train(tmp_path: Path) -> Conversations:
    chats = [numbered_chat(i, rounds=1 + i % 3) for i in range(20)]
    return stored_conversations(tmp_path / "in", {"chats": chats, "pairs": [PAIR]}).train


def test_pretraining_has_no_loss_on_what_is_not_to_be_learned(tmp_path: Path) -> None:
    chat = turns("q", "BAD", "no", "good")
    chat[1]["learn"] = False
    kept = stored_conversations(tmp_path / "in", {"one": [chat, document("cut off", max_bytes=3)]})
    mixture = mix(kept.train, {}, seed=1)
    stream = PretrainDataset(mixture, tokenizer(), CacheOptions(tmp_path), max_len=1)
    rows = [stream[row] for row in range(len(stream))]
    ids = torch.cat([row["input_ids"] for row in rows])
    labels = torch.cat([row["labels"] for row in rows])
    assert sorted(tokenizer().decode(ids[labels == -100].tolist()).split(IM_END)) == ["", "", "BAD"]
    assert torch.equal(ids[labels != -100], labels[labels != -100])
    assert tokenizer().decode(ids.tolist()) == "".join(t + ENDOFTEXT for t in mixture.texts)


def test_a_models_template_makes_all_three_datasets(tmp_path: Path) -> None:
    known = family_tokenizer("qwen3")
    chat = turns("2+2?", "<think>\nhm\n</think>\n\n4", "3+3?", "<think>\nha\n</think>\n\n6")
    chats = [chat, numbered_chat(1), document("A text.")]
    kept = stored_conversations(tmp_path / "in", {"chats": chats, "pairs": [PAIR]}).train
    cache, form = CacheOptions(tmp_path), chat_format(known, learn="last turn")
    both = {"max_len": 90, "chat_format": form}
    for _ in range(2):  # built, then used as it is
        sft = SFTDataset(kept, known, cache, **both)  # type: ignore[arg-type]
        dpo = DPODataset(kept, known, cache, pairs="real", **both)  # type: ignore[arg-type]
        stream = PretrainDataset(mix(kept, {}, seed=1), known, cache, max_len=5, chat_format=form)
    assert sft.explain().endswith("used as it is")
    learned = [known.decode(row["input_ids"][row["labels"] != -100].tolist()) for row in list(sft)]
    assert any("ha\n</think>\n\n6" in text for text in learned)
    assert not any("hm" in text for text in learned)
    chosen, loss, *_ = dpo[0]
    assert known.decode(chosen[loss > 0].tolist()).endswith("good<|im_end|>")
    ids = torch.cat([stream[row]["input_ids"] for row in range(len(stream))])
    assert "A text.<|endoftext|>" in known.decode(ids.tolist())
    plain = SFTDataset(kept, known, cache, max_len=90)
    assert plain.fingerprint != sft.fingerprint


@pytest.mark.parametrize("kind", ["pretrain", "sft", "dpo"])
def test_only_the_chosen_sources_are_trained_on_and_the_others_are_said(
    train: Conversations, tmp_path: Path, kind: str
) -> None:
    part = make_dataset(kind, train, tmp_path, sources=["pairs"])
    assert isinstance(part, CachedDataset)
    whole = part.table.column("source"), part.table.column("source not chosen")
    assert whole == (["pairs", "chats"], [0, train.counts["chats"]])
    assert part.table.column("conversations") == [train.counts["pairs"], 0]
    alone = make_dataset(kind, train.only(["pairs"]), tmp_path)
    assert part.fingerprint == alone.fingerprint
    with pytest.raises(ValueError, match="sources name pear; there is chats, pairs"):
        make_dataset(kind, train, tmp_path, sources=["pairs", "pear"])


def test_every_pair_says_whether_it_is_real(train: Conversations, tmp_path: Path) -> None:
    everything, real = (
        DPODataset(train, tokenizer(), CacheOptions(tmp_path), max_len=128, pairs=pairs)
        for pairs in ("all", "real")
    )
    flags = everything.real(np.arange(len(everything)))
    assert flags.tolist() == [False] * train.counts["chats"] + [True] * train.counts["pairs"]
    assert everything.table.column("made pairs") == [train.counts["chats"], 0]
    assert real.real(np.arange(len(real))).tolist() == [True] * train.counts["pairs"]
    assert real.table.column("no real pair") == [train.counts["chats"], 0]
    for left, right in zip(real[0], everything[len(everything) - 1], strict=True):
        assert torch.equal(left, right)
    with pytest.raises(ValueError, match="pairs is 'made'"):
        make_dataset("dpo", train, tmp_path, pairs="made")


def make_dataset(kind: str, train: Conversations, root: Path, **more: Any) -> TokenDataset:
    if kind == "shards":
        folder = root / "shards"
        return ShardedTokenDataset(
            folder if folder.exists() else publish(folder, [*range(50)], [*range(50, 90)]),
            "train",
            8,
        )
    if kind == "pretrain":
        mixture = mix(train, {}, seed=1)
        return PretrainDataset(mixture, tokenizer(), CacheOptions(root), max_len=32, **more)
    dataset_class = SFTDataset if kind == "sft" else DPODataset
    return dataset_class(train, tokenizer(), CacheOptions(root), max_len=128, **more)


@pytest.fixture(params=KINDS)
def dataset(request: pytest.FixtureRequest, train: Conversations, tmp_path: Path) -> TokenDataset:
    return make_dataset(request.param, train, tmp_path)


def token_lists(sample: Any) -> list[list[int]]:
    return [t.tolist() for t in (sample.values() if isinstance(sample, dict) else sample)]


def test_negative_places_count_from_the_end_and_others_are_outside(dataset: TokenDataset) -> None:
    size = len(dataset)
    assert token_lists(dataset[-1]) == token_lists(dataset[size - 1])
    for outside in (size, -size - 1):
        with pytest.raises(IndexError, match=f"sample {outside} of {size}"):
            dataset[outside]


def test_many_samples_at_once_are_the_samples_one_by_one(dataset: TokenDataset) -> None:
    batch = dataset.__getitems__([3, 0, -1])
    assert [token_lists(sample) for sample in batch] == [
        token_lists(dataset[i]) for i in (3, 0, -1)
    ]
    assert len(batch) == 3


def test_every_tensor_is_int64_and_may_be_written_to(dataset: TokenDataset) -> None:
    sample = dataset[0]
    for tensor in sample.values() if isinstance(sample, dict) else sample:
        assert tensor.dtype == torch.int64
        tensor[0] = 7
    assert token_lists(dataset[0]) != token_lists(sample)


def test_a_loader_serves_each_sample_once_in_whole_batches(dataset: TokenDataset) -> None:
    batches = list(loader(dataset, 4, seed=5))
    first = [t for b in batches for t in (b["input_ids"] if isinstance(b, dict) else b[0]).tolist()]
    assert len(first) == len(dataset)
    assert sorted(first) == sorted(token_lists(dataset[i])[0] for i in range(len(dataset)))


def test_an_ordinary_loader_works_too(dataset: TokenDataset) -> None:
    batch = next(iter(DataLoader(dataset, batch_size=3)))
    tensors = list(batch.values()) if isinstance(batch, dict) else batch
    assert [t.shape[0] for t in tensors] == [3] * len(tensors)
    assert tensors[0][1].tolist() == token_lists(dataset[1])[0]


def test_it_travels_to_a_worker_by_path(dataset: TokenDataset) -> None:
    dataset[0]
    again = pickle.loads(pickle.dumps(dataset))
    assert token_lists(again[-1]) == token_lists(dataset[-1])
    assert again.fingerprint == dataset.fingerprint


def test_two_worker_processes_give_the_same_samples(train: Conversations, tmp_path: Path) -> None:
    dataset = make_dataset("sft", train, tmp_path)
    alone = list(DataLoader(dataset, batch_size=4))
    shared = list(DataLoader(dataset, batch_size=4, num_workers=2))
    assert [b["input_ids"].tolist() for b in shared] == [b["input_ids"].tolist() for b in alone]


def test_a_loader_goes_on_at_a_saved_position(dataset: TokenDataset) -> None:
    def ids(batch: Any) -> Any:
        return token_lists(batch)[0]

    whole = [ids(batch) for batch in loader(dataset, 2, seed=9)]
    first = loader(dataset, 2, seed=9)
    begun = iter(first)
    taken = [ids(next(begun)), ids(next(begun))]
    state = first.batch_sampler.state_dict()  # type: ignore[union-attr]
    assert state["position"] == 4
    second = loader(dataset, 2, seed=9)
    second.batch_sampler.load_state_dict(state)  # type: ignore[union-attr]
    assert taken + [ids(batch) for batch in second] == whole


def test_shard_windows_give_each_token_and_the_one_behind_it(tmp_path: Path) -> None:
    folder = publish(tmp_path / "out", [*range(50)], [*range(50, 90)])
    dataset = ShardedTokenDataset(folder, "train", 8)
    assert len(dataset) == 11
    assert dataset.unused_tokens == 1
    x, y = dataset[6]  # across the shards
    assert x.tolist() == [*range(48, 56)]
    assert y.tolist() == [*range(49, 57)]


def test_windows_tell_documents_and_places_in_them_when_asked(tmp_path: Path) -> None:
    tokens = [5, 6, 0, 7, 0, 0, 8, 9, 9, 0, 4, 4, 4]
    folder = publish(tmp_path / "out", tokens[:7], tokens[7:], tokenizer={"eos_id": 0})
    dataset = ShardedTokenDataset(folder, "train", 6, documents=True, positions=True)
    x, y, documents, positions = dataset[0]
    assert (x.tolist(), y.tolist()) == (tokens[:6], tokens[1:7])
    assert documents.tolist() == [0, 0, 0, 1, 1, 2]
    assert positions.tolist() == [0, 1, 2, 0, 1, 0]
    assert token_lists(dataset[1])[2:] == [[0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 0, 1]]
    only = ShardedTokenDataset(folder, "train", 6, positions=True)
    assert token_lists(only.__getitems__([0, 1])[1])[2:] == [[0, 1, 2, 3, 0, 1]]
    assert len(ShardedTokenDataset(folder, "train", 6)[0]) == 2
    assert next(iter(loader(dataset, 2, seed=0)))[3].shape == (2, 6)


def test_a_split_shorter_than_a_window_is_empty(tmp_path: Path) -> None:
    dataset = ShardedTokenDataset(publish(tmp_path / "out", [1, 2, 3]), "train", 8)
    assert len(dataset) == 0
    assert dataset.unused_tokens == 2
    assert len(ShardedTokenDataset(tmp_path / "out", "val", 8)) == 0
    with pytest.raises(IndexError, match="sample 0 of 0"):
        dataset[0]


def test_wrong_arguments_are_refused(train: Conversations, tmp_path: Path) -> None:
    folder = publish(tmp_path / "out", [1, 2, 3])
    with pytest.raises(ValueError, match="seq_len"):
        ShardedTokenDataset(folder, "train", 0)
    with pytest.raises(ValueError, match="verify"):
        ShardedTokenDataset(folder, "train", 8, verify="maybe")
    with pytest.raises(ValueError, match="max_len"):
        PretrainDataset(mix(train, {}, seed=1), tokenizer(), CacheOptions(tmp_path), max_len=0)


def test_pretraining_windows_are_the_stream_in_pieces(train: Conversations, tmp_path: Path) -> None:
    mixture = mix(train, {"chats": 2}, seed=1)
    dataset = PretrainDataset(mixture, tokenizer(), CacheOptions(tmp_path), max_len=32)
    served = [token for i in range(len(dataset)) for token in dataset[i]["input_ids"].tolist()]
    text = "".join(t + ENDOFTEXT for t in mixture.texts)
    assert text.startswith(tokenizer().decode(served).rstrip("\ufffd"))
    assert len(served) + dataset.unused_tokens == dataset.cache.size("pretrain_tokens.bin") // 4
    assert 0 <= dataset.unused_tokens < 32
    assert torch.equal(dataset[0]["labels"], dataset[0]["input_ids"])


def test_a_window_longer_than_the_stream_leaves_no_samples(
    train: Conversations, tmp_path: Path
) -> None:
    mixture = mix(train, {}, seed=1)
    dataset = PretrainDataset(mixture, tokenizer(), CacheOptions(tmp_path), max_len=10**6)
    assert len(dataset) == 0
    with pytest.raises(ValueError, match="no sample"):
        loader(dataset, 2)


def test_another_width_cuts_the_same_stream(train: Conversations, tmp_path: Path) -> None:
    mixture, cache_options = mix(train, {}, seed=1), CacheOptions(tmp_path)
    narrow = PretrainDataset(mixture, tokenizer(), cache_options, max_len=16)
    wide = PretrainDataset(mixture, tokenizer(), cache_options, max_len=32)
    assert wide.cache.folder == narrow.cache.folder
    assert wide.fingerprint != narrow.fingerprint


def test_the_trained_part_of_a_row_is_the_answers_with_their_end_marks(
    train: Conversations, tmp_path: Path
) -> None:
    dataset = SFTDataset(train, tokenizer(), CacheOptions(tmp_path), max_len=256)
    assert len(dataset) == len(train)
    for row, conversation in enumerate(train):
        sample = dataset[row]
        answers = [t["content"] for t in conversation if t["role"] == "assistant"]
        trained = sample["input_ids"][sample["loss_mask"] == 1].tolist()
        assert tokenizer().decode(trained) == "".join(a + IM_END for a in answers)
        assert sample["labels"][sample["labels"] != -100].tolist() == trained
        there = sample["attention_mask"] == 1
        assert (sample["input_ids"][~there] == control_id(PAD)).all()
        assert int(there.sum()) == dataset.lengths(np.array([row]))[0]


def test_pairs_are_four_tensors_with_one_prompt(train: Conversations, tmp_path: Path) -> None:
    dataset = DPODataset(train, tokenizer(), CacheOptions(tmp_path), max_len=128)
    chosen, chosen_mask, rejected, rejected_mask = dataset[-1]
    assert tokenizer().decode(chosen[chosen_mask == 1].tolist()) == "good" + IM_END
    assert tokenizer().decode(rejected[rejected_mask == 1].tolist()) == "bad" + IM_END
    prompt = int(chosen_mask.argmax())
    assert torch.equal(chosen[:prompt], rejected[:prompt])
    assert dataset.lengths(np.arange(1)).shape == (1, 2)


def test_a_dataset_says_why_its_cache_was_used_and_what_it_left_out(
    train: Conversations, tmp_path: Path
) -> None:
    dataset = SFTDataset(train, tokenizer(), CacheOptions(tmp_path), max_len=60)
    assert "there is no other sft cache" in dataset.explain()
    assert dataset.table.column("source") == ["chats", "pairs"]
    assert sum(map(int, dataset.table.column("kept"))) == len(dataset)  # type: ignore[arg-type]
    again = SFTDataset(train, tokenizer(), CacheOptions(tmp_path), max_len=60)
    assert again.explain().endswith("used as it is")


@pytest.mark.parametrize("dataset_class", [SFTDataset, DPODataset])
def test_no_conversations_are_an_empty_dataset(tmp_path: Path, dataset_class: Any) -> None:
    none = stored_conversations(tmp_path / "in", {"none": []}).train
    dataset = dataset_class(none, tokenizer(), CacheOptions(tmp_path), max_len=8)
    assert len(dataset) == 0
    with pytest.raises(IndexError, match="sample 0 of 0: there is nothing that fits"):
        dataset[0]
    with pytest.raises(ValueError, match="no sample"):
        loader(dataset, 2)


@pytest.mark.parametrize("dataset_class", [SFTDataset, DPODataset])
def test_rows_longer_than_the_whole_corpus_lose_nothing(
    train: Conversations, tmp_path: Path, dataset_class: Any
) -> None:
    dataset = dataset_class(train, tokenizer(), CacheOptions(tmp_path), max_len=20_000)
    assert len(dataset) == len(train)
    lengths = dataset.lengths(np.arange(len(dataset)))
    assert lengths.sum() < 20_000
    ids = token_lists(dataset[-1])[0]
    assert set(ids[int(lengths.flat[-1]) + 99 :]) == {control_id(PAD)}


def test_padding_that_is_the_end_of_a_document_is_told_from_it_by_place(tmp_path: Path) -> None:
    shared = tokenizer_from_json(tokenizer().json, eos_token=PAD)
    assert shared.eos_id == shared.token_id(PAD)
    chats = [turns("q", f"see {PAD}"), turns("q q q", "a a b")]
    train = stored_conversations(tmp_path / "in", {"one": chats}).train
    cache_options = CacheOptions(tmp_path)
    stream = PretrainDataset(mix(train, {}, seed=1), shared, cache_options, max_len=8)
    served = [token for i in range(len(stream)) for token in token_lists(stream[i])[0]]
    assert 1 <= served.count(shared.eos_id) <= 2
    sft, dpo = (
        dataset_class(train, shared, cache_options, max_len=64)
        for dataset_class in (SFTDataset, DPODataset)
    )
    for row, chat in enumerate(chats):
        sample, length = sft[row], int(sft.lengths(np.array([row]))[0])
        assert sample["attention_mask"].tolist() == [1] * length + [0] * (64 - length)
        trained = sample["labels"][sample["labels"] != -100].tolist()
        assert shared.decode(trained) == chat[1]["content"] + IM_END
        for ids, mask in (dpo[row][:2], dpo[row][2:]):
            assert shared.eos_id not in ids[mask == 1].tolist()


def test_ids_of_a_large_vocabulary_arrive_whole(train: Conversations, tmp_path: Path) -> None:
    wide, cache_options = wide_tokenizer(), CacheOptions(tmp_path)
    sft = SFTDataset(train, wide, cache_options, max_len=256)
    for row in (0, len(sft) - 1):
        sample = sft[row]
        shown = sample["input_ids"][sample["attention_mask"] == 1].tolist()
        assert wide.decode(shown) == render(train[row])
        assert max(shown) > 200_000
    chosen = DPODataset(train, wide, cache_options, max_len=256)[-1][0].tolist()
    assert chosen.count(wide.token_id(IM_END)) == 2


def test_inputs_and_targets_of_shards_share_no_bytes_and_can_be_viewed_flat(tmp_path: Path) -> None:
    folder = publish(tmp_path / "out", [*range(50)])
    dataset = ShardedTokenDataset(folder, "train", 4)
    x, y = dataset.__getitems__([0, 1]).tensors
    targets = y.clone()
    x.fill_(0)
    assert torch.equal(y, targets)
    assert y.view(-1).shape == (8,)
