"""What the model must generate, held against renderers that others wrote by hand in Python.

Texts that the two write in another way are not compared, and are counted.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from chat_templates import ORIGINAL, changed, control_of, header, shapes_for
from renderers import config_from_name, create_renderer

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.families import declared_for
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

THEIR_NAME = {
    "qwen3": "qwen3",
    "qwen3_vl": "qwen3-vl",
    "qwen3_5_think": "qwen3.5",
    "qwen3_5_nothink": "qwen3.5",
    "qwen3_6": "qwen3.6",
    "qwen3_8": "qwen3.8",
    "gemma4_v4": "gemma4",
    "gemma4_v5": "gemma4",
    "glm4moe": "glm-4.5",
    "deepseekv3": "deepseek-v3",
    "deepseek_r1_distill": "deepseek-r1",
    "nemotron_3_nano": "nemotron-3",
    "nemotron_3_super": "nemotron-3",
    "nemotron_3_ultra": "nemotron-3-ultra",
    "nemotron_3_5_lightning": "nemotron-3.5",
    "llama3_2": "llama-3",
}
"""Families that both know. That of gpt-oss asks the network for a vocabulary."""
NEEDED = (
    *("<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),
    *("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<eos>", "<pad>", "<bos>"),
    *("<|end_of_text|>", "<|eom_id|>", "<|finetune_right_pad_id|>", "<|python_tag|>", "<|image>"),
    *("<|image|>", "<image|>", "<|audio|>", "<|audio>", "<audio|>", "<|video|>", "<|think|>"),
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "/nothink", "[gMASK]", "<sop>"),
    *("<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>"),
    *("<|channel>", "<channel|>", '<|"|>', "<|turn>", "<turn|>", "<|im_start|>", "<|im_end|>"),
)
"""Tokens that a renderer asks its tokenizer for, also where no text has them."""
DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
ENDS = {
    "deepseekv3": DEEPSEEK,
    "deepseek_r1_distill": DEEPSEEK,
    "llama3_2": ("<|begin_of_text|>", "<|eot_id|>"),
}
"""BOS and EOS, where a renderer has them fixed."""
THEIR_DATE = datetime(2024, 7, 26)
FUZZED_EVERY = 3
"""For one shape of so many there is a conversation with other strings, too."""


class Characters:
    """A tokenizer with a token for each character and for each control token."""

    unk_token = unk_token_id = None
    name_or_path = "characters"

    def __init__(self, control: ControlTokens, ends: tuple[str, str]) -> None:
        self._control = control.pattern
        self._ids = {text: 0x110000 + n for n, text in enumerate(sorted(control.texts))}
        self._texts = {number: text for text, number in self._ids.items()}
        self.bos_token, self.eos_token = ends
        self.bos_token_id, self.eos_token_id = (self._ids[end] for end in ends)

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        at = 0
        for match in self._control.finditer(text):
            yield from ((n, n + 1) for n in range(at, match.start()))
            yield match.span()
            at = match.end()
        yield from ((n, n + 1) for n in range(at, len(text)))

    def __call__(self, text: str, **options: Any) -> dict[str, Any]:
        spans = list(self._spans(text))
        ids = [self.convert_tokens_to_ids(text[low:high]) for low, high in spans]
        return {"input_ids": ids, "offset_mapping": spans}

    def encode(self, text: str, **options: Any) -> list[int]:
        return list(self(text)["input_ids"])

    def decode(self, ids: Any, **options: Any) -> str:
        numbers = [ids] if isinstance(ids, int) else ids
        return "".join(self._texts.get(n) or chr(n) for n in numbers)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._ids.get(token, ord(token) if len(token) == 1 else None)


def pair(name: str) -> tuple[ModelTemplate, Characters, Any]:
    source, ends = ORIGINAL[name].read_text(), ENDS.get(name, ("<bos>", "<|im_end|>"))
    control = ControlTokens(control_of(source).texts | {*NEEDED, *ends})
    keywords = {"bos_token": ends[0], "eos_token": ends[1]}
    template = ModelTemplate(source, control, keywords, declared_for(source)[1], THEIR_DATE)
    tokenizer = Characters(control, ends)
    return template, tokenizer, create_renderer(tokenizer, config_from_name(THEIR_NAME[name]))


def theirs(tokenizer: Characters, renderer: Any, given: ChatInput) -> tuple[str, dict[int, int]]:
    """Text, and the characters that the model samples -> the message; no text where it fails."""
    try:
        made = renderer.render([dict(m) for m in given.messages], tools=given.tools)
    except (ValueError, TypeError, KeyError):
        return "", {}
    texts = [tokenizer.decode(number) for number in made.token_ids]
    known = zip(made.sampled_mask, made.message_indices, texts, strict=True)
    flags = [(sampled, message) for sampled, message, text in known for _ in text]
    return "".join(texts), {n: message for n, (sampled, message) in enumerate(flags) if sampled}


def stretches(places: set[int], text: str) -> list[str]:
    order = sorted(places)
    cuts = [0, *(n for n, (a, b) in enumerate(pairwise(order), 1) if b != a + 1), len(order)]
    return [text[order[low] : order[high - 1] + 1] for low, high in pairwise(cuts) if high > low]


def conversations(name: str) -> Iterator[ChatInput]:
    """All shapes, and the same with other strings."""
    chance = random.Random(name)
    for number, given in enumerate(shapes_for(name).values(), len(name)):
        if not given.keywords:
            yield given
            if not number % FUZZED_EVERY:
                yield replace(given, messages=changed(given.messages, chance))


def reason(name: str, text: str, prompt: str) -> str | None:
    """The named class of a difference: what they train and we do not."""
    if prompt.endswith(text):
        return "text that the prompt supplies"
    is_mark = name.startswith("gemma4") and text == "<|tool_response>"
    return "the mark of a result" if is_mark else None


def compare(name: str) -> Counter[str]:
    template, tokenizer, renderer = pair(name)
    prompt, seen = header(template, parts=False), Counter[str]()
    for given in conversations(name):
        try:
            ours = template.derive(given)
        except TemplateRefused:
            continue
        text, sampled = theirs(tokenizer, renderer, given)
        if text != ours.text:
            seen["not compared"] += 1
            continue
        seen["compared"] += 1
        seen["turns that are context here"] += len(ours.context_only)
        trained = {place for span in ours.spans for place in range(span.start, span.stop)}
        learned = {place for place, turn in sampled.items() if turn not in ours.context_only}
        for stretch in stretches(learned - trained, text):
            known = reason(name, stretch, prompt)
            assert known, (name, given, stretch)
            seen[known] += 1
        for stretch in stretches(trained - sampled.keys(), text):
            assert (name, stretch) == ("glm4moe", "\n"), (name, given, stretch)
            seen["the line that an answer begins with"] += 1
    return seen


@pytest.mark.parametrize("name", THEIR_NAME)
def test_masks_are_those_of_the_renderer_of_the_family(name: str) -> None:
    seen = compare(name)
    assert seen["compared"] > 2 * seen["not compared"], seen
    assert seen["turns that are context here"] <= 4, seen
