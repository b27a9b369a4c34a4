"""Which format a tokenizer's conversations have, and what of it is in the key of a cache."""

import dataclasses
import json
from datetime import date
from typing import Any

import pytest
from chat_world import tokenizer, tokenizer_from_json
from template_world import family_tokenizer, with_template

from pipeline_lib.errors import TokenizerError
from pipeline_lib.templates import chatml
from pipeline_lib.templates.chat_format import ChatML, ModelFormat, chat_format
from pipeline_lib.tokenization.chat_files import ChatFiles
from pipeline_lib.tokenization.tokenizer import Tokenizer

QWEN = family_tokenizer("qwen3")


def with_chat(known: Tokenizer, **fields: Any) -> Tokenizer:
    return dataclasses.replace(known, chat=ChatFiles(**fields))


def model_format(known: Tokenizer, **options: Any) -> ModelFormat:
    found = chat_format(known, **options)
    assert isinstance(found, ModelFormat)
    return found


def test_our_own_template_and_none_at_all_are_chatml() -> None:
    own = with_chat(tokenizer(), templates={"default": chatml.TEMPLATE})
    assert chat_format(own) == chat_format(tokenizer()) == ChatML()


def test_reasoning_without_loss_takes_the_general_way_with_our_own_template_too() -> None:
    assert model_format(tokenizer(), reasoning="context").source == chatml.TEMPLATE


def test_without_a_template_and_its_control_tokens_there_is_no_format() -> None:
    with pytest.raises(TokenizerError, match="has no chat template"):
        chat_format(with_chat(_without_marks()))


def _without_marks() -> Tokenizer:
    fields = json.loads(tokenizer().json)
    for token in fields["added_tokens"]:
        token["content"] = token["content"].replace("im_sep", "im_other")
    vocabulary = fields["model"]["vocab"]
    vocabulary["<|im_other|>"] = vocabulary.pop("<|im_sep|>")
    return tokenizer_from_json(json.dumps(fields).encode())


def test_a_template_is_taken_by_name_by_text_or_because_it_is_the_only_one() -> None:
    templates = {"default": "{{ 1 }}", "short": "{{ 2 }}"}
    known = with_chat(QWEN, templates=templates)
    assert model_format(known).source == "{{ 1 }}"
    assert model_format(known, template="short").source == "{{ 2 }}"
    assert model_format(known, template="{{ 3 }}").source == "{{ 3 }}"
    assert model_format(with_chat(QWEN, templates={"rag": "{{ 4 }}"})).source == "{{ 4 }}"
    with pytest.raises(TokenizerError, match="no chat template 'long'; it has default, short"):
        chat_format(known, template="long")


def test_conversations_with_tools_have_the_template_for_tools() -> None:
    known = with_chat(QWEN, templates={"default": "{{ 1 }}", "tool_use": "{{ 2 }}"})
    found = model_format(known)
    assert (found.source, found.tool_source) == ("{{ 1 }}", "{{ 2 }}")
    plain, tools = found.templates
    assert plain.program.source != tools.program.source


def test_a_document_ends_in_the_end_of_text_and_padding_may_be_the_end_token() -> None:
    found = model_format(QWEN)
    assert found.document_end == QWEN.token_id("<|endoftext|>")
    assert model_format(QWEN, document_end="<|im_end|>").document_end == QWEN.token_id("<|im_end|>")
    assert found.pad_id == QWEN.eos_id
    padded = with_chat(QWEN, templates={"default": "{{ 1 }}"}, pad_token="<|pad|>")
    assert model_format(padded).pad_id == QWEN.token_id("<|pad|>")
    assert model_format(padded).keywords == {"pad_token": "<|pad|>"}
    fields = json.loads(QWEN.json)
    for token in fields["added_tokens"]:
        token["special"] = token["content"] == "<|im_end|>"
    plain = tokenizer_from_json(json.dumps(fields).encode(), eos_token="<|im_end|>")
    plain = with_chat(plain, templates={"default": "{{ 1 }}"})
    assert model_format(plain).document_end == QWEN.token_id("<|im_end|>")
    with pytest.raises(TokenizerError, match="no token '<none>'"):
        chat_format(QWEN, document_end="<none>")


CHANGES: dict[str, dict[str, Any]] = {
    "template": {"template": "{{ messages }}"},
    "keywords": {"keywords": {"enable_thinking": False}},
    "learn": {"learn": "last turn"},
    "reasoning": {"reasoning": "context"},
    "history": {"history": "as rendered"},
    "today": {"today": date(2026, 1, 1)},
    "document_end": {"document_end": "<|im_end|>"},
}


@pytest.mark.parametrize("changed", CHANGES)
def test_whatever_decides_ids_or_masks_is_in_the_key(changed: str) -> None:
    before = model_format(QWEN).key(QWEN)
    assert model_format(QWEN, **CHANGES[changed]).key(QWEN) != before
    assert model_format(QWEN).key(QWEN) == before


def test_a_key_has_these_fields() -> None:
    marks = {"im_start_id", "im_sep_id", "im_end_id", "pad_id", "eos_id"}
    own = {"encoding_version", "probe_render", "mask_policy", "learn"}
    assert set(chat_format(tokenizer()).key(tokenizer())) == marks | own
    source = {"chat_template", "chat_keywords", "control_tokens", "omissions", "stops", "today"}
    policy = {"learn", "reasoning", "history"}
    versions, ids = {"method_version", "encoding_version"}, {"eos_id", "pad_id"}
    assert set(model_format(QWEN).key(QWEN)) == source | policy | versions | ids


def test_the_control_tokens_and_what_is_declared_are_in_the_key() -> None:
    found = model_format(QWEN)
    fewer = dataclasses.replace(found.control, texts=found.control.texts - {"<think>"})
    declared = dataclasses.replace(found.declared, stops=frozenset({"<|user|>"}))
    for other in ({"control": fewer}, {"declared": declared}, {"pad_id": 1}, {"tool_source": ""}):
        assert dataclasses.replace(found, **other).key(QWEN) != found.key(QWEN)


def test_only_chatml_of_another_policy_has_another_key() -> None:
    keys = [
        chat_format(tokenizer(), learn=learn).key(tokenizer()) for learn in ("all", "last turn")
    ]
    assert keys[0] != keys[1]


def test_a_template_that_is_code_is_refused_in_words() -> None:
    found = model_format(with_template("{% import 'x' as y %}"))
    with pytest.raises(TokenizerError, match="the chat template is refused"):
        _ = found.templates


def test_a_policy_that_nobody_knows_is_refused() -> None:
    for wrong in ({"learn": "some"}, {"reasoning": "no"}, {"history": "cut"}):
        with pytest.raises(ValueError, match="expected one of"):
            chat_format(QWEN, **wrong)  # type: ignore[arg-type]


def test_bos_and_eos_are_those_of_the_tokenizer_unless_they_are_given() -> None:
    assert model_format(QWEN).keywords == {"bos_token": "<bos>", "eos_token": "<|eos|>"}
    given = model_format(QWEN, keywords={"bos_token": ""}).keywords
    assert given == {"bos_token": "", "eos_token": "<|eos|>"}
