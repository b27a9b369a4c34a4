"""A tokenizer is reduced to what decides ids, and refused when it can not end a document."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import EOS, texts, tokenizer_bytes, tokenizer_file
from loopback_hub import Hub
from loopback_hub.publish import byte_level_tokenizer, publish_tokenizer

from pipeline_lib.digest import sha256_bytes
from pipeline_lib.errors import HubError, TokenizerError
from pipeline_lib.tokenization.bpe_training import train_bpe
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer


def changed_json(**fields: Any) -> bytes:
    return json.dumps({**json.loads(tokenizer_bytes()), **fields}).encode()


def word_level_json(count: int, *, hole: int = 0, special: bool = True) -> bytes:
    """A word-level tokenizer of ``count`` ids, the last one the end token, behind a hole."""
    vocabulary = {f"w{n}": n for n in range(count - 1)}
    last = count - 1 + hole
    added = {"id": last, "content": EOS, "special": special, "single_word": False}
    added |= {"lstrip": False, "rstrip": False, "normalized": False}
    model = {"type": "WordLevel", "vocab": {**vocabulary, EOS: last}, "unk_token": "w0"}
    fields = {"version": "1.0", "added_tokens": [added], "model": model}
    empty = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    fields |= dict.fromkeys(empty) | {"pre_tokenizer": {"type": "WhitespaceSplit"}}
    return json.dumps(fields).encode()


def test_chance_is_switched_off_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = loaded_tokenizer(tmp_path)
    model = json.loads(tokenizer_bytes())["model"]
    found = loaded_tokenizer(tmp_path, changed_json(model={**model, "dropout": 0.5}))
    assert found.sha256 == plain.sha256 and found.json == plain.json
    text = "the river " * 99
    assert token_ids(found, text) == token_ids(plain, text)
    assert "switched off: model.dropout 0.5" in caplog.text
    assert found.metadata() == {**plain.metadata(), "switched_off": ["model.dropout 0.5"]}
    assert "switched_off" not in plain.metadata()


def loaded_tokenizer(folder: Path, data: bytes | None = None, **config: Any) -> Tokenizer:
    return load_tokenizer(tokenizer_file(folder / "tokenizer", data, **config))


def token_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encoder("tokenizers").encode([text.encode()]).ids.tolist()


def test_a_file_a_folder_and_a_string_are_the_same_tokenizer(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path / "tokenizer")
    assert load_tokenizer(path) == load_tokenizer(path.parent) == load_tokenizer(str(path))
    found = load_tokenizer(path)
    assert found.repository == "local" and found.revision == f"sha256:{found.sha256}"
    assert found.sha256 == sha256_bytes(found.json)


def test_the_identity_is_that_of_the_content_not_of_the_place(tmp_path: Path) -> None:
    one, two = (loaded_tokenizer(tmp_path / name) for name in ("one", "two"))
    assert one == two
    other = loaded_tokenizer(tmp_path / "three", byte_level_tokenizer(texts(50), vocab_size=301))
    assert other.sha256 != one.sha256


TRUNCATION = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
PADDING = {
    "strategy": {"Fixed": 32}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
    "pad_type_id": 0, "pad_token": EOS,
}  # fmt: skip
PROCESSOR = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": EOS, "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {EOS: {"id": EOS, "ids": [0], "tokens": [EOS]}},
}


@pytest.mark.parametrize("kind", ["tokenizers", "gigatoken"])
@pytest.mark.parametrize(
    "saved", [{"truncation": TRUNCATION}, {"padding": PADDING}, {"post_processor": PROCESSOR}]
)
def test_what_a_file_carries_besides_its_vocabulary_changes_no_id(
    tmp_path: Path, saved: dict[str, Any], kind: str
) -> None:
    plain, other = (
        loaded_tokenizer(tmp_path / "plain"),
        loaded_tokenizer(tmp_path / "other", changed_json(**saved)),
    )
    document = ["x" * 1_000, "a", ""]
    found = [t.encoder(kind).encode([d.encode() for d in document]) for t in (plain, other)]
    assert found[0].ids.tolist() == found[1].ids.tolist()
    assert found[0].offsets.tolist() == found[1].offsets.tolist()
    assert other.sha256 == plain.sha256


@pytest.mark.parametrize(
    ("count", "hole", "dtype"),
    [
        (3, 0, "<u2"),
        (65_536, 0, "<u2"),
        (65_537, 0, "<u4"),
        (10, 65_526, "<u2"),
        (10, 65_527, "<u4"),
    ],
)
def test_the_dtype_follows_the_largest_id_holes_included(
    tmp_path: Path, count: int, hole: int, dtype: str
) -> None:
    found = loaded_tokenizer(tmp_path, word_level_json(count, hole=hole))
    assert (found.vocab_bound, found.dtype) == (count + hole, np.dtype(dtype))
    assert found.eos_id == count + hole - 1 == found.metadata()["vocab_size"] - 1


def test_the_highest_of_65536_ids_fits_two_bytes(tmp_path: Path) -> None:
    found = loaded_tokenizer(tmp_path, word_level_json(65_536))
    assert token_ids(found, "w65534 w0") == [65_534, 0]
    assert np.array([65_535]).astype(found.dtype).tolist() == [found.eos_id]


def test_the_end_token_of_the_configuration_comes_before_the_default(tmp_path: Path) -> None:
    data = byte_level_tokenizer(texts(9), special_tokens=(EOS, "</s>"))
    assert loaded_tokenizer(tmp_path / "a", data).eos_token == EOS
    assert loaded_tokenizer(tmp_path / "b", data, eos_token="</s>").eos_token == "</s>"
    asked = {"content": "</s>", "lstrip": False, "special": True}
    assert loaded_tokenizer(tmp_path / "c", data, eos_token=asked).eos_id == 1


def test_an_end_token_that_is_asked_for_comes_first(tmp_path: Path) -> None:
    data = byte_level_tokenizer(texts(9), special_tokens=(EOS, "</s>"))
    path = tokenizer_file(tmp_path / "tokenizer", data, eos_token=EOS)
    assert load_tokenizer(path, eos_token="</s>").eos_token == "</s>"


def test_a_tokenizer_without_an_end_token_lists_the_special_ones(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"names no end token .*: none; choose .* --eos-token"):
        loaded_tokenizer(tmp_path / "a", byte_level_tokenizer(special_tokens=()))
    with pytest.raises(TokenizerError, match=r"special tokens: <s>, <pad>; choose the one"):
        loaded_tokenizer(tmp_path / "b", byte_level_tokenizer(special_tokens=("<s>", "<pad>")))


def test_an_end_token_that_is_not_in_the_vocabulary_is_refused(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path / "tokenizer")
    with pytest.raises(
        TokenizerError, match=r"end token '</s>' is not in the vocabulary; .*" + "end"
    ):
        load_tokenizer(path, eos_token="</s>")


def test_an_ordinary_added_token_becomes_special_when_it_ends_documents(tmp_path: Path) -> None:
    fields = json.loads(tokenizer_bytes())
    fields["added_tokens"][0]["special"] = False
    found = load_tokenizer(
        tokenizer_file(tmp_path / "t", json.dumps(fields).encode()), eos_token=EOS
    )
    assert found.eos_id not in token_ids(found, f"a {EOS} b")


def test_the_text_of_control_tokens_inside_documents_stays_text(tmp_path: Path) -> None:
    found = load_tokenizer(
        tokenizer_file(tmp_path / "t", train_bpe(texts(30), vocab_size=300).json)
    )
    numbers = {found.token_id(token) for token in CONTROL_TOKENS}
    for kind in ("tokenizers", "gigatoken"):
        text = "x" + "".join(CONTROL_TOKENS) + " y"
        encoded = found.encoder(kind).encode([text.encode()]).ids.tolist()
        assert not numbers & set(encoded) and found.decode(encoded) == text


@pytest.mark.parametrize("config", [None, {"vocab.json": b"{}", "merges.txt": b""}])
def test_a_slow_tokenizer_is_refused(tmp_path: Path, config: dict[str, bytes] | None) -> None:
    (tmp_path / "tokenizer").mkdir()
    for name, data in (config or {}).items():
        (tmp_path / "tokenizer" / name).write_bytes(data)
    with pytest.raises(TokenizerError, match=r"has no tokenizer\.json, so it is no fast tokenizer"):
        load_tokenizer(tmp_path / "tokenizer")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff"])
def test_a_file_that_is_not_json_is_named_as_such(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(data)
    with pytest.raises(TokenizerError, match="is not valid JSON"):
        load_tokenizer(path)


@pytest.mark.parametrize("data", [b"[]", b"{}", b'"text"', b'{"model": 3, "added_tokens": 4}'])
def test_json_that_is_no_tokenizer_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(data)
    with pytest.raises(TokenizerError):
        load_tokenizer(path, eos_token=EOS)


def test_an_added_token_the_library_would_number_otherwise_is_refused(tmp_path: Path) -> None:
    fields = json.loads(tokenizer_bytes())
    extra = {**fields["added_tokens"][0], "id": 700, "content": "<extra>"}
    fields["added_tokens"].append(extra)
    with pytest.raises(
        TokenizerError, match="'<extra>' has id 700 in the file but the library num"
    ):
        loaded_tokenizer(tmp_path, json.dumps(fields).encode())


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path / "tokenizer")
    pinned = load_tokenizer(path).revision
    assert load_tokenizer(path, revision=pinned).revision == pinned
    path.write_bytes(changed_json(model=json.loads(byte_level_tokenizer(vocab_size=280))["model"]))
    with pytest.raises(TokenizerError, match=f"is sha256:.*, but {pinned} was asked for"):
        load_tokenizer(path, revision=pinned)


def test_tokens_have_numbers_and_numbers_have_text(tmp_path: Path) -> None:
    found = loaded_tokenizer(tmp_path)
    assert found.token_id(EOS) == found.eos_id == 0
    with pytest.raises(TokenizerError, match="has no token '<nope>'"):
        found.token_id("<nope>")
    assert found.decode([*token_ids(found, "the river 語"), 0]) == f"the river 語{EOS}"


def test_metadata_names_what_checkpoints_record(tmp_path: Path) -> None:
    found = loaded_tokenizer(tmp_path).metadata()
    assert set(found) == {
        "repository", "revision", "sha256", "vocab_size", "eos_token", "eos_id", "use_fast",
        "add_special_tokens", "append_eos",
    }  # fmt: skip
    assert (found["use_fast"], found["add_special_tokens"], found["append_eos"]) == (
        True, False, True,
    )  # fmt: skip


def test_a_tokenizer_of_the_hub_is_pinned_to_a_commit(hub: Hub) -> None:
    repo = publish_tokenizer(hub, "acme/tok", tokenizer_bytes())
    first = load_tokenizer("acme/tok")
    assert (first.repository, first.revision) == ("acme/tok", repo.sha)
    repo.edit({"tokenizer.json": byte_level_tokenizer(vocab_size=280)})
    assert load_tokenizer("acme/tok").sha256 != first.sha256
    assert load_tokenizer("acme/tok", revision=first.revision) == first


def test_a_slow_tokenizer_of_the_hub_is_refused_with_the_way_to_convert_it(hub: Hub) -> None:
    publish_tokenizer(hub, "acme/slow", tokenizer_bytes()).edit({"tokenizer.json": None})
    with pytest.raises(TokenizerError, match=r"so it is a slow tokenizer; convert it"):
        load_tokenizer("acme/slow")


def test_a_tokenizer_that_is_nowhere_is_an_error_of_the_hub(hub: Hub) -> None:
    with pytest.raises(HubError, match="acme/none"):
        load_tokenizer("acme/none")


def test_training_refuses_a_vocabulary_without_room_for_every_byte() -> None:
    smallest = len(CONTROL_TOKENS) + 256
    for wrong in (260, -1, 4e4, True):
        with pytest.raises(ValueError, match=f"vocab_size is {wrong}; {smallest} is the smallest"):
            train_bpe([], vocab_size=wrong)  # type: ignore[arg-type]
    assert len(json.loads(train_bpe([], vocab_size=smallest).json)["model"]["vocab"]) == smallest


def test_a_trained_tokenizer_gives_every_text_back(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path / "t", train_bpe(texts(30), vocab_size=400).json)
    found = load_tokenizer(path)
    for text in ("the river", "  leading", "日本語 👩‍👧\x00\ufeff", "\r\n\t"):
        assert found.decode(token_ids(found, text)) == text
    assert [found.token_id(token) for token in CONTROL_TOKENS] == [0, 1, 2, 3, 4]
