"""The three token caches: what they hold, when they are made again, what they say of losses."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_world import (
    TOOL,
    contents,
    numbered_chat,
    stored_conversations,
    tokenizer,
    tokenizer_from_json,
    tool_chat,
    turns,
)
from crashes import seam, survives
from gigatoken import gigatoken_rs
from template_world import family_tokenizer
from tokenizers import AddedToken, models, pre_tokenizers
from tokenizers import Tokenizer as ReferenceTokenizer

from pipeline_lib import selection
from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.chat.mixture import mix
from pipeline_lib.chat.store import Conversations
from pipeline_lib.chat.turns import document
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.templates.chatml import render
from pipeline_lib.templates.encoding import NO_TOKENS, NOT_ENCODABLE, TOOLS
from pipeline_lib.token_caches import caches, encoders, row_cache
from pipeline_lib.token_caches.build import Cache
from pipeline_lib.token_caches.caches import dpo_cache, pretrain_cache, sft_cache
from pipeline_lib.token_caches.counts import counts_table
from pipeline_lib.token_caches.fitted import OverLength
from pipeline_lib.token_caches.row_cache import RowCache
from pipeline_lib.tokenization import equality
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS, ENDOFTEXT
from pipeline_lib.tokenization.tokenizer import Tokenizer

STREAM = "pretrain_tokens.bin"
PAIR = Pair(turns("q"), turns("good", first="assistant"), turns("bad", first="assistant"))


@pytest.fixture
def train(tmp_path: Path) -> Conversations:
    chats = [numbered_chat(i, rounds=1 + i % 3) for i in range(30)]
    return stored_conversations(
        tmp_path / "in", {"chats": chats, "none": [], "pairs": [PAIR]}
    ).train


def whole(cache: Cache | RowCache) -> Cache:
    """The cache that holds the tokens."""
    return cache if isinstance(cache, Cache) else cache.whole


def shown(cache: RowCache, learned: bool = False) -> list[str]:
    """The text of every stored row, or of its trained tokens."""
    rows = cache.rows
    starts, stops = rows.bounds(np.arange(len(rows)))
    places = [slice(a, b) for a, b in zip(starts.ravel(), stops.ravel(), strict=True)]
    found = [(rows.ids.array[here], rows.mask.array[here]) for here in places]
    return [tokenizer().decode(ids[mask >= learned].tolist()) for ids, mask in found]


def sft(root: Path, train: Conversations, **options: Any) -> RowCache:
    return sft_cache(CacheOptions(root), train, tokenizer(), **({"max_len": 200} | options))


def test_the_stream_is_the_mixture_with_an_end_after_each_conversation(
    train: Conversations, tmp_path: Path
) -> None:
    mixture = mix(train, {"chats": 1.5, "pairs": 2}, seed=3)
    cache = pretrain_cache(CacheOptions(tmp_path), mixture, tokenizer())
    stream = np.fromfile(cache.path("pretrain_tokens.bin"), "<i4")
    assert tokenizer().decode(stream.tolist()) == "".join(
        text + ENDOFTEXT for text in mixture.texts
    )
    assert cache.counts["chats"]["conversations"] == 45
    assert sum(counts.get("tokens", 0) for counts in cache.counts.values()) == len(stream)


def test_trained_tokens_of_the_stream_are_counted(train: Conversations, tmp_path: Path) -> None:
    stream = pretrain_cache(CacheOptions(tmp_path), mix(train, {}, seed=3), tokenizer())
    rows = sft(tmp_path, train)
    assert {n: c["trained"] for n, c in stream.counts.items()} == {
        n: c["trained"] for n, c in rows.counts.items()
    }


def test_each_conversation_has_a_row_in_the_order_of_the_store(
    train: Conversations, tmp_path: Path
) -> None:
    assert shown(sft(tmp_path, train)) == [render(conversation) for conversation in train]


def test_every_conversation_is_counted_once_for_its_source(
    train: Conversations, tmp_path: Path
) -> None:
    cache = dpo_cache(CacheOptions(tmp_path), train, tokenizer(), max_len=60)
    counts = cache.counts["chats"]
    assert counts["kept"] + counts["too long"] == counts["conversations"] == 30
    assert 0 < counts["kept"] < 30
    assert cache.counts["none"] == dict.fromkeys(counts, 0)
    assert counts_table(cache.counts).column("source") == ["chats", "none", "pairs"]


def test_real_pairs_are_counted_apart_from_made_ones(train: Conversations, tmp_path: Path) -> None:
    counts = dpo_cache(CacheOptions(tmp_path), train, tokenizer(), max_len=200).counts
    assert {name: (c["kept"], c["real pairs"]) for name, c in counts.items()} == {
        "chats": (30, 0),
        "none": (0, 0),
        "pairs": (1, 1),
    }


def test_a_source_that_loses_more_than_a_twentieth_to_its_length_warns(
    train: Conversations, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sft(tmp_path, train)
    assert not [r for r in caplog.records if r.levelname == "WARNING"]
    for _ in range(2):  # also when the cache is only opened
        caplog.clear()
        sft(tmp_path, train, max_len=60)
        assert "of 30 conversations of chats are longer than max_len 60" in caplog.text


@pytest.mark.parametrize(
    ("change", "component"),
    [
        ({"over_length": "truncate_turns"}, "turns_dropped_to_fit: None -> 200"),
        ({"limit": 5}, "limit: -1 -> 5"),
    ],
)
def test_a_changed_choice_builds_another_cache_and_says_which(
    train: Conversations, tmp_path: Path, change: dict[str, Any], component: str
) -> None:
    first = sft(tmp_path, train)
    assert sft(tmp_path, train, **change).explanation.endswith(component)
    assert (
        sft(tmp_path, train).explanation == f"{whole(first).folder.name}: complete, used as it is"
    )


BUILDERS: dict[str, Callable[..., Cache | RowCache]] = {
    "pretrain": lambda root, train, **more: pretrain_cache(
        CacheOptions(root), mix(train, {}, seed=1), tokenizer(), **more
    ),
    "sft": lambda root, train, **more: sft(root, train, **more),
    "dpo": lambda root, train, **more: dpo_cache(
        CacheOptions(root), train, tokenizer(), max_len=200, **more
    ),
}


@pytest.mark.parametrize("kind", BUILDERS)
def test_a_part_of_the_conversations_is_never_taken_for_all_of_them(
    train: Conversations, tmp_path: Path, kind: str
) -> None:
    build = BUILDERS[kind]
    made = [build(tmp_path, train, limit=limit) for limit in (-1, 5, 4)]
    assert [sum(c["conversations"] for c in one.counts.values()) for one in made] == [31, 5, 4]
    assert made[1].explanation.endswith("limit: -1 -> 5")
    assert len({whole(one).folder for one in made}) == 3
    assert whole(build(tmp_path, train)).folder == whole(made[0]).folder


def test_other_content_of_the_same_lengths_builds_another_cache(tmp_path: Path) -> None:
    caches = []
    for answer in ("abc", "abd"):
        train = stored_conversations(tmp_path / answer, {"one": [turns("q", answer)]}).train
        caches.append(sft(tmp_path, train))
    assert "raw_fp" in caches[1].explanation
    assert caches[0].whole.folder != caches[1].whole.folder


def test_another_tokenizer_with_equal_ids_builds_another_cache(
    train: Conversations, tmp_path: Path
) -> None:
    first = sft(tmp_path, train)
    swapped = dataclasses.replace(tokenizer(), sha256="0" * 64)
    again = sft_cache(CacheOptions(tmp_path), train, swapped, max_len=200)
    assert "tok_sha" in again.explanation
    assert sft(tmp_path, train).whole.folder == first.whole.folder


def test_other_weights_build_another_stream_but_no_other_rows(
    train: Conversations, tmp_path: Path
) -> None:
    cache_options = CacheOptions(tmp_path)
    streams = {
        pretrain_cache(cache_options, mix(train, {"chats": w}, seed=1), tokenizer()).folder
        for w in (1, 2)
    }
    assert len(streams) == 2
    sft(tmp_path, train)
    assert sft(tmp_path, train).explanation.endswith("used as it is")


def test_a_key_names_its_parts_and_no_place(train: Conversations, tmp_path: Path) -> None:
    key = sft(tmp_path / "a", train).whole.record.key
    assert key == sft(tmp_path / "b", train).whole.record.key
    assert {"tok_sha", "pad_id", "eos_id", "im_end_id", "limit", "limit_selects"} < set(key)
    assert {"turns_dropped_to_fit", "mask_policy", "format_version", "encoding_version"} < set(key)
    assert {"probe_render", "raw_fp"} < set(key)
    assert str(tmp_path) not in str(key)


@pytest.mark.parametrize("limit", [-1, 7])
def test_opening_a_complete_cache_does_no_work_that_grows_with_it(
    train: Conversations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    cache_options, mixture = CacheOptions(tmp_path), mix(train, {}, seed=1)

    def everything() -> list[str]:
        rows = [
            c(cache_options, train, tokenizer(), max_len=90, limit=limit)
            for c in (sft_cache, dpo_cache)
        ]
        return [c.explanation for c in (*rows, pretrain_cache(cache_options, mixture, tokenizer()))]

    everything()
    for module, name in ((selection, "sample"), (encoders, "coder_for"), (np, "arange")):
        monkeypatch.setattr(module, name, pytest.fail)
    monkeypatch.setattr(Conversations, "read", pytest.fail)
    assert all(why.endswith("used as it is") for why in everything())


def test_documents_are_pretraining_text_unless_they_are_asked_for(tmp_path: Path) -> None:
    chats = {"wiki": [document("an article")] * 2, "chats": [numbered_chat(1)]}
    train = stored_conversations(tmp_path / "in", chats).train
    left_out, asked_for = sft(tmp_path, train), sft(tmp_path, train, documents=True)
    for cache, kept in ((left_out, 0), (asked_for, 2)):
        counts = cache.counts
        assert (counts["wiki"]["kept"], counts["wiki"].get("document", 0)) == (kept, 2 - kept)
        assert counts["wiki"]["conversations"] == 2 and counts["chats"]["kept"] == 1
    assert asked_for.counts["wiki"]["trained"] > 0 == left_out.counts["wiki"]["trained"]
    stream = pretrain_cache(CacheOptions(tmp_path), mix(train, {}, seed=1), tokenizer())
    assert stream.counts["wiki"]["conversations"] == 2


def test_the_end_of_a_cut_document_is_never_learned(tmp_path: Path) -> None:
    both = [document("whole"), document("cut off here", max_bytes=7)]
    train = stored_conversations(tmp_path / "in", {"wiki": both}).train
    trained = shown(sft(tmp_path, train, documents=True), learned=True)
    assert sorted(trained) == ["cut off", "whole<|im_end|>"]


def test_a_limit_takes_that_many_conversations(train: Conversations, tmp_path: Path) -> None:
    mixture = mix(train, {}, seed=1)
    assert sum(c["kept"] for c in sft(tmp_path, train, limit=7).counts.values()) == 7
    cache = pretrain_cache(CacheOptions(tmp_path), mixture, tokenizer(), limit=4)
    stream = np.fromfile(cache.path("pretrain_tokens.bin"), "<i4")
    assert tokenizer().decode(stream.tolist()) == "".join(t + ENDOFTEXT for t in mixture.texts[:4])


@pytest.mark.parametrize("wrong", [{"max_len": 0}, {"over_length": "left"}, {"limit": -2}])
def test_wrong_choices_are_refused(
    train: Conversations, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        sft(tmp_path, train, **wrong)


def test_no_conversations_give_an_empty_cache(tmp_path: Path) -> None:
    train = stored_conversations(tmp_path / "in", {"none": []}).train
    assert sft(tmp_path, train).whole.size("sft_ids.bin") == 0


@pytest.mark.parametrize("kind", ["pretrain", "sft", "dpo"])
def test_a_build_that_crashed_anywhere_ends_with_the_bytes_of_one_that_did_not(
    train: Conversations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(caches, "BATCHES", Counter({kind: 7}))
    mixture = mix(train, {"chats": 1.5}, seed=2)

    def build(root: Path) -> dict[str, bytes]:
        cache_options = CacheOptions(root, save_every_seconds=0)
        if kind == "pretrain":
            pretrain_cache(cache_options, mixture, tokenizer())
        else:
            make_cache = sft_cache if kind == "sft" else dpo_cache
            make_cache(cache_options, train, tokenizer(), max_len=100)
        return contents(root)

    with seam(watch=tmp_path) as watched:
        expected = build(tmp_path / "whole")
    for at in watched.places()[::3]:
        root = tmp_path / str(at)
        assert not survives(lambda root=root: build(root), at, torn=True)
        with seam():
            assert build(root) == expected


def test_under_a_models_template_too_only_the_conversations_decide_the_bytes(
    train: Conversations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = family_tokenizer("qwen3")
    for make_cache in (sft_cache, dpo_cache):
        at_once = make_cache(CacheOptions(tmp_path / "a"), train, known, max_len=100)
        monkeypatch.setattr(caches, "BATCHES", {"sft": 3, "dpo": 3})
        make_cache(CacheOptions(tmp_path / "b"), train, known, max_len=100)
        assert contents(tmp_path / "b") == contents(tmp_path / "a")
        assert len(at_once.rows) and at_once.chosen.shape[0]
        monkeypatch.undo()


def test_how_many_conversations_are_written_at_a_time_changes_nothing(
    train: Conversations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dpo_cache(CacheOptions(tmp_path / "a"), train, tokenizer(), max_len=100)
    monkeypatch.setattr(caches, "BATCHES", {"dpo": 1})
    monkeypatch.setattr(row_cache, "_RECORDS", 3)
    dpo_cache(CacheOptions(tmp_path / "b"), train, tokenizer(), max_len=100)
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


@pytest.mark.parametrize("rule", ["drop", "truncate_right"])
@pytest.mark.parametrize("make_cache", [sft_cache, dpo_cache])
def test_another_width_encodes_nothing_and_is_what_a_build_of_its_own_is(
    train: Conversations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: OverLength,
    make_cache: Any,
) -> None:  # fmt: skip
    def build(root: str, max_len: int) -> RowCache:
        options = CacheOptions(tmp_path / root)
        made: RowCache = make_cache(options, train, tokenizer(), max_len=max_len, over_length=rule)
        return made

    widths = (30, 60, 70, 200)
    alone = {width: build(str(width), width) for width in widths}
    build("shared", 100)
    monkeypatch.setattr(encoders, "coder_for", pytest.fail)
    shared = {width: build("shared", width) for width in widths}
    for width in widths:
        assert shared[width].counts == alone[width].counts
        assert shared[width].fingerprint == alone[width].fingerprint
        assert shared[width].chosen.array.tolist() == alone[width].chosen.array.tolist()
    assert len({str(found.counts) for found in shared.values()}) > 2
    kind = alone[30].kind
    folders = [len([*(tmp_path / "shared").glob(f"{name}-*")]) for name in (kind, f"fit-{kind}")]
    assert folders == [1, len(widths) + 1]


@pytest.mark.parametrize("rule", ["drop", "truncate_right"])
@pytest.mark.parametrize("make_cache", [sft_cache, dpo_cache])
def test_tokens_and_trained_tokens_are_those_of_the_rows_as_they_are_read(
    train: Conversations, tmp_path: Path, rule: OverLength, make_cache: Any
) -> None:
    seen = set[str]()
    for width in (60, 70, 200):
        made: RowCache = make_cache(
            CacheOptions(tmp_path), train, tokenizer(), max_len=width, over_length=rule
        )
        starts, stops = made.rows.bounds(made.chosen.array.astype(np.int64))
        sizes, mask = np.minimum(stops - starts, width), made.rows.mask.array
        places = zip(starts.ravel().tolist(), sizes.ravel().tolist(), strict=True)
        trained = sum(int(mask[start : start + size].sum()) for start, size in places)
        found = [sum(c[name] for c in made.counts.values()) for name in ("tokens", "trained")]
        assert found == [sizes.sum(), trained]
        assert sum(c["kept"] for c in made.counts.values()) == len(starts)
        seen.add(made.fingerprint)
    assert len(seen) > 1 or rule == "truncate_right"  # which rows fit is part of it


def words(unknown: str | None) -> Tokenizer:
    """A tokenizer of few words; the library raises on others if ``unknown`` is none of them."""
    names = [*CONTROL_TOKENS, "user", "system", "assistant", "q", "good", "bad"]
    known = {name: number for number, name in enumerate(names)}
    model = models.WordLevel(known, unk_token=unknown) if unknown else models.BPE(known, [])
    reference = ReferenceTokenizer(model)
    reference.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    reference.add_special_tokens([*CONTROL_TOKENS])
    if not unknown:  # letters that no token spells vanish
        reference.add_tokens([AddedToken(name, special=False) for name in names[5:]])
    return tokenizer_from_json(reference.to_str().encode())


@pytest.mark.parametrize(
    ("unknown", "reason"), [("<gone>", NOT_ENCODABLE), (None, NO_TOKENS)], ids=["raises", "empty"]
)
def test_conversations_that_can_not_have_ids_are_left_out_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unknown: str | None, reason: str
) -> None:
    sound, strange = turns("q", "good"), turns("q", "語")
    bad_pair = Pair(turns("q"), turns("good", first="assistant"), turns("語", first="assistant"))
    sources = {"chats": [sound, strange, sound], "pairs": [PAIR, bad_pair]}
    train = stored_conversations(tmp_path / "in", sources).train
    options, chosen = CacheOptions(tmp_path), words(unknown)
    stream = pretrain_cache(options, mix(train, {}, seed=3), chosen)
    rows = sft_cache(options, train, chosen, max_len=60)
    pairs = dpo_cache(options, train, chosen, max_len=60)
    assert stream.counts["chats"][reason] == rows.counts["chats"][reason] == 1
    assert (rows.counts["chats"]["kept"], pairs.counts["pairs"]["kept"]) == (2, 1)
    assert pairs.counts["pairs"][reason] == 1
    ids = np.fromfile(stream.path("pretrain_tokens.bin"), "<i4")
    assert (ids == chosen.eos_id).sum() == 4  # two chats and the chosen side of two pairs
    assert len(ids) == sum(counts["tokens"] for counts in stream.counts.values())
    assert f"conversations {reason} are left out and counted; the first is conversation" in (
        caplog.text
    )


def test_talks_with_tools_are_left_out_counted_and_named_in_every_cache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    talk, plain = tool_chat(1), numbered_chat(2)
    other = turns("another answer", first="assistant")
    with_tools = [
        talk,
        Turns([*talk[:2]]),
        Turns(turns("only schemas", "were offered"), tools=[TOOL]),
        Turns([*talk]),
    ]
    pair = Pair([*plain[:1]], [*plain[1:]], [*talk[1:2]])
    after = Pair([*talk[:3]], [*talk[3:]], other, tools=talk.tools)
    offered = Pair(turns("q"), turns("good", first="assistant"), other, tools=[TOOL])
    pairs = [PAIR, pair, after, offered]
    sources = {"chats": [plain, *with_tools, plain], "pairs": pairs}
    train = stored_conversations(tmp_path / "in", sources).train
    alone = stored_conversations(tmp_path / "alone", {"chats": [plain, plain]}).train
    options = CacheOptions(tmp_path)
    mixed, bare = mix(train.only(["chats"]), {}, seed=3), mix(alone, {}, seed=3)
    stream = pretrain_cache(options, mixed, tokenizer())
    rows = sft_cache(options, train, tokenizer(), max_len=200)
    both = dpo_cache(options, train, tokenizer(), max_len=200)
    for cache in (stream, rows, both):
        assert cache.counts["chats"][TOOLS] == 4
    assert (rows.counts["chats"]["kept"], both.counts["chats"]["kept"]) == (2, 2)
    assert (rows.counts["pairs"][TOOLS], both.counts["pairs"][TOOLS]) == (2, 3)
    assert both.counts["pairs"]["kept"] == 1
    expected = pretrain_cache(CacheOptions(tmp_path / "alone"), bare, tokenizer())
    assert stream.path(STREAM).read_bytes() == expected.path(STREAM).read_bytes()
    ids = rows.rows.ids.array
    assert "TOOLTEXT" not in tokenizer().decode(ids.tolist())
    assert f"conversations {TOOLS} are left out and counted; the first is conversation 1" in (
        caplog.text
    )


def test_a_wrong_fast_encoder_is_found_and_the_cache_is_built_by_the_reference(
    train: Conversations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    load = gigatoken_rs.load_hf_json
    right = sft(tmp_path / "right", train)

    def spoiled(source: str) -> Any:
        fields = json.loads(source)
        vocabulary = fields["model"]["vocab"]
        vocabulary["7"], vocabulary["8"] = vocabulary["8"], vocabulary["7"]
        return load(json.dumps(fields))

    monkeypatch.setattr(gigatoken_rs, "load_hf_json", spoiled)
    monkeypatch.setattr(equality, "NASTY", (b"plain",))
    monkeypatch.setattr(equality, "own_texts", lambda fields: [])
    made = sft(tmp_path / "made", train)
    assert made.fingerprint == right.fingerprint
    assert "the cache is emptied and built again by the reference encoder" in caplog.text
