"""What a tokenizer's files say of chat is what the tokenizers of ``transformers`` read there."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from corpora import EOS, texts, tokenizer_file
from loopback_hub import Hub
from loopback_hub.publish import byte_level_tokenizer, publish_tokenizer

from pipeline_lib.errors import TokenizerError
from pipeline_lib.tokenization.chat_files import ChatFiles
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer

DATA = byte_level_tokenizer(texts(9), special_tokens=(EOS, "<s>", "</s>", "<pad>"))
HI, BYE, USE = "{{ 'hi' }}\r\n", "{{ 'bye' }}\n\n", "{{ 'tools' }}"
FOLDER = "additional_chat_templates/"


def as_json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def config(**fields: Any) -> dict[str, bytes]:
    return {"tokenizer_config.json": as_json(**fields)}


def token_map(**fields: Any) -> dict[str, bytes]:
    return {"special_tokens_map.json": as_json(**fields)}


SAVED = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
TYPED = {"__type": "AddedToken", "content": "<s>", "special": True, **SAVED}
DECODER = {"1": {"content": "<s>", "special": True, **SAVED}}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": None}
NAMED = [{"name": "default", "template": HI}, {"name": "tool_use", "template": USE}]
LAYOUTS: dict[str, dict[str, bytes]] = {
    "nothing": {},
    "a configuration of something else": config(model_max_length=5),
    "one text": config(chat_template=HI),
    "no text": config(chat_template=None, **TOKENS),
    "named texts": config(chat_template=NAMED, eos_token="</s>"),
    "one named text": config(chat_template=[{"name": "rag", "template": HI}]),
    "one name twice": config(chat_template=[*NAMED, {"name": "default", "template": BYE}]),
    "names and texts": config(chat_template={"default": HI, "rag": BYE}),
    "a file": {"chat_template.jinja": HI.encode()},
    "a file before the configuration": {"chat_template.jinja": b"x"} | config(chat_template=HI),
    "a file before named texts": {"chat_template.jinja": b"x"} | config(chat_template=NAMED),
    "an empty file": {"chat_template.jinja": b""} | config(chat_template=HI),
    "an empty text": config(chat_template=""),
    "files": {"chat_template.jinja": b"x", FOLDER + "tool_use.jinja": b"y"},
    "more files before the configuration": {FOLDER + "a.b.jinja": b"y"} | config(chat_template=HI),
    "a second file by the first one's name": {
        "chat_template.jinja": b"x", FOLDER + "default.jinja": b"y", FOLDER + "notes.txt": b"z",
    },
    "a file that begins with a mark of its bytes": {"chat_template.jinja": "\ufeffx".encode()},
    "tokens as objects": config(bos_token=TYPED, eos_token="</s>", pad_token="<pad>"),
    "an older file of tokens": token_map(eos_token={"content": "</s>", **SAVED}, pad_token="<pad>"),
    "the older file outranks": config(eos_token=EOS, bos_token="<s>") | token_map(eos_token="</s>"),
    "the older file takes away": config(**TOKENS) | token_map(bos_token=None),
    "the older file does not count": config(eos_token=EOS, added_tokens_decoder=DECODER)
    | token_map(eos_token="</s>", bos_token="<s>"),
}  # fmt: skip


def folder(place: Path, files: Mapping[str, bytes]) -> Path:
    tokenizer_file(place, DATA)
    for name, data in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(data)
    return place


def loaded(place: Path, **files: bytes) -> Tokenizer:
    return load_tokenizer(folder(place, files), eos_token=EOS)


def as_transformers_reads(place: Path) -> ChatFiles:
    from transformers import PreTrainedTokenizerFast

    found: Any = PreTrainedTokenizerFast.from_pretrained(place)
    single = isinstance(found.chat_template, str)
    templates = {"default": found.chat_template} if single else found.chat_template or {}
    return ChatFiles(dict(templates), found.bos_token, found.eos_token, found.pad_token)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_folder_says_what_transformers_reads_there(tmp_path: Path, name: str) -> None:
    place = folder(tmp_path / "t", LAYOUTS[name])
    found = load_tokenizer(place, eos_token=EOS).chat
    assert found == as_transformers_reads(place)
    assert load_tokenizer(place / "tokenizer.json", eos_token=EOS).chat == found


def test_a_repository_at_a_revision_says_what_a_folder_does_and_sends_no_weights(
    hub: Hub, tmp_path: Path
) -> None:
    weights = {"model.safetensors": b"w" * 99, "sub/chat_template.jinja": b"other"}
    for number, files in enumerate(LAYOUTS.values()):
        name = f"acme/t{number}"
        repo = publish_tokenizer(hub, name, DATA, files={**files, **weights})
        if "tokenizer_config.json" not in files:
            repo.edit({"tokenizer_config.json": None})
        first = repo.sha
        repo.edit({FOLDER + "later.jinja": b"later"})
        found = load_tokenizer(name, revision=first, eos_token=EOS)
        local = load_tokenizer(folder(tmp_path / str(number), files), eos_token=EOS)
        assert found.chat == local.chat
        assert load_tokenizer(name, eos_token=EOS).chat.templates["later"] == "later"
    asked = {entry.path.rpartition("/")[2] for entry in hub.journal.matching("/resolve/")}
    assert "chat_template.jinja" in asked
    assert not asked & {"model.safetensors", "config.json", "notes.txt"}
    assert not hub.journal.matching("sub/")


@pytest.mark.parametrize("name", ["chat_template.json", "processor_config.json"])
def test_the_template_of_a_processor_counts_where_there_is_no_other(
    tmp_path: Path, name: str
) -> None:
    processor = {name: as_json(chat_template=HI)}
    assert loaded(tmp_path / "a", **processor).chat.templates == {"default": HI}
    for n, mine in enumerate(({"chat_template.jinja": b"x"}, config(chat_template="x"))):
        assert loaded(tmp_path / f"b{n}", **processor, **mine).chat.templates == {"default": "x"}


def test_what_is_said_of_chat_changes_nothing_else_of_a_tokenizer(tmp_path: Path) -> None:
    plain = loaded(tmp_path / "a")
    for n, files in enumerate(LAYOUTS.values()):
        found = loaded(tmp_path / str(n), **files)
        assert (found.sha256, found.json) == (plain.sha256, plain.json)
        assert (found.revision, found.metadata()) == (plain.revision, plain.metadata())
        assert hash(found) == hash(plain)


def test_the_older_file_ends_documents_only_where_nothing_else_does(tmp_path: Path) -> None:
    older = token_map(eos_token="</s>")
    assert load_tokenizer(folder(tmp_path / "a", older)).eos_token == EOS
    assert (
        load_tokenizer(folder(tmp_path / "b", older | config(eos_token="<s>"))).eos_token == "<s>"
    )
    without = byte_level_tokenizer(texts(9), special_tokens=("<s>", "</s>"))
    place = folder(tmp_path / "c", older)
    (place / "tokenizer.json").write_bytes(without)
    assert load_tokenizer(place).eos_token == "</s>"


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
DAMAGED: dict[str, tuple[dict[str, bytes], str]] = {
    "cut": ({"tokenizer_config.json": b'{"chat_template": '}, r"tokenizer_config\.json of .* JSON"),
    "empty": (
        {"special_tokens_map.json": b""},
        r"special_tokens_map\.json of .* JSON",
    ),
    "nested": ({"tokenizer_config.json": b"[" * 99_999}, r"is not valid JSON"),
    "no object": ({"special_tokens_map.json": b"[]"}, r"Expected `object`, got `array`"),
    "a number": (config(chat_template=5), r"got `int` - at `\$\.chat_template`"),
    "a number in a list": (config(chat_template=[5]), r"\$\.chat_template\[0\]"),
    "no name": (config(chat_template=[{"template": HI}]), r"missing required field `name`"),
    "no text": (config(chat_template=[{"name": "x", "template": None}]), r"\[0\]\.template"),
    "a list of tokens": (config(eos_token=["</s>"]), r"\$\.eos_token"),
    "a token without text": (token_map(bos_token={"id": 5}), r"field `content`"),
    "a token of another kind": (token_map(pad_token={"content": 1}), r"\$\.pad_token\.content"),
    "of a processor": ({"chat_template.json": b'{"chat_template": 1}'}, r"\$\.chat_template"),
    "no text in a file": ({"chat_template.jinja": b"\xff\xfe"}, r"jinja of .* is not UTF-8 text"),
    "no text in a second file": ({FOLDER + "a.jinja": b"\x80"}, r"a\.jinja of .* is not UTF-8"),
    "an address": ({"chat_template.jinja": LFS}, r"address in Git LFS; run git lfs pull"),
    "an address for JSON": (
        {"tokenizer_config.json": LFS},
        r"address in Git LFS; run git lfs pull",
    ),
    "an address for all": ({"tokenizer.json": LFS}, r"tokenizer\.json of .* address in Git LFS"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named_with_its_place_and_what_to_do(tmp_path: Path, name: str) -> None:
    files, expected = DAMAGED[name]
    with pytest.raises(TokenizerError, match=expected) as raised:
        loaded(tmp_path / "t", **files)
    assert str(tmp_path / "t") in str(raised.value)
    assert ";" in str(raised.value)


OTHERS = {
    "tokenizer.model": "it has tokenizer.model, a SentencePiece model: transformers.AutoTokenizer",
    "tekken.json": "a tokenizer of mistral-common: transformers.AutoTokenizer",
    "vocab.json": "slow BPE tokenizer: transformers.AutoTokenizer",
    "adapter_config.json": "an adapter: name the model in its base_model_name_or_path",
    "model-Q4.gguf": "GGUF files: name the repository that they were made from",
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_there_instead_of_a_fast_tokenizer_is_named_with_the_way_out(
    hub: Hub, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"x")
    publish_tokenizer(hub, "acme/t").edit({"tokenizer.json": None, name: b"x"})
    places = [tmp_path, "acme/t"] + [tmp_path / name] * (not name.startswith(("a", "model")))
    for place in places:
        with pytest.raises(TokenizerError, match=r"has no tokenizer\.json") as raised:
            load_tokenizer(place)
        assert OTHERS[name] in str(raised.value)
