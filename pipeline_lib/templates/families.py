"""Families of chat templates: how each is told by its text, and what can not be derived of it.

A declared omission or stop is only a permission: a turn that does not begin or end so is context,
and the text is always that of the template. So a template that is taken for another family loses
nothing but turns.
"""

from dataclasses import dataclass

from pipeline_lib.templates.derived import Declared
from pipeline_lib.tokenization.control_tokens import IM_START

_OPEN, _OPEN_LINE, _CLOSED = "<think>", "<think>\n", "<think></think>"
_EMPTY = "<think>\n\n</think>\n\n"
_NOTHING = Declared()


@dataclass(frozen=True)
class TemplateFamily:
    """``marks``: texts that all occur in a template of the family; ``absent``: none of these does.

    ``declared``: see ``Declared``. ``note``: what is special, for people.
    """

    name: str
    marks: tuple[str, ...]
    note: str
    absent: tuple[str, ...] = ()
    declared: Declared = _NOTHING

    def fits(self, source: str) -> bool:
        """Whether the text of a template shows this family."""
        return all(m in source for m in self.marks) and not any(a in source for a in self.absent)


FAMILIES = (
    TemplateFamily(
        "gpt-oss",
        ("<|start|>", "<|channel|>", "<|return|>"),
        "A turn ends in <|end|> in the history and in <|return|> as the last one.",
    ),
    TemplateFamily(
        "Muse Glimmer",
        ("<|start|>", "<|eom|>", "<|eot|>"),
        "A turn that calls a tool ends in <|eom|>, another one in <|eot|>.",
    ),
    TemplateFamily(
        "Gemma 4",
        ("<|turn>", "<turn|>"),
        "A second answer in a row has no header of its own, so it is context.",
    ),
    TemplateFamily(
        "Gemma",
        ("<start_of_turn>", "<end_of_turn>"),
        "Roles have to alternate; the first two generations take no system turn.",
    ),
    TemplateFamily(
        "DeepSeek",
        ("<｜Assistant｜>", "<｜User｜>"),
        "The generation prompt opens a think block that turns of a conversation do not have.",
        declared=Declared((_OPEN_LINE, _OPEN, "</think>")),
    ),
    TemplateFamily(
        "GLM",
        ("[gMASK]<sop>", "<|observation|>"),
        "A turn ends in the header of the next one, so the last turn teaches no end.",
        declared=Declared((_CLOSED, _OPEN), frozenset(("<|user|>", "<|observation|>"))),
    ),
    TemplateFamily(
        "Apertus",
        ("<|assistant_start|>", "<|assistant_end|>", "<|inner_prefix|>"),
        "The next turn writes the end of a turn, so the last turn teaches no end.",
        declared=Declared(stops=frozenset(("<|assistant_end|>",))),
    ),
    TemplateFamily(
        "Nemotron 3",
        (IM_START, "<think></think>", "<IMPORTANT>"),
        "The generation prompt opens or closes a think block; the history has empty ones.",
        declared=Declared((_OPEN_LINE, _CLOSED)),
    ),
    TemplateFamily(
        "Qwen 3.5",
        (IM_START, "<think>", "<IMPORTANT>"),
        "The generation prompt opens or closes a think block that the history does not have.",
        declared=Declared((_OPEN_LINE, _EMPTY)),
    ),
    TemplateFamily(
        "LFM2.5",
        (IM_START, "<|tool_call_start|>", "<think>"),
        "Reasoning is taken out of the history.",
    ),
    TemplateFamily(
        "LFM2", (IM_START, "<|tool_list_start|>"), "The first version drops tool calls."
    ),
    TemplateFamily(
        "Qwen 3",
        (IM_START, "<think>", "<tool_call>"),
        "Reasoning is taken out of the history.",
        declared=Declared((_OPEN_LINE, _EMPTY)),
    ),
    TemplateFamily(
        "Qwen 2.5",
        (IM_START, "<tool_call>"),
        "A system turn is added where there is none.",
        absent=("<think>",),
    ),
    TemplateFamily(
        "Qwen 2.5 VL", (IM_START, "<|vision_start|>"), "Tool calls are dropped.", ("<tool_call>",)
    ),
    TemplateFamily(
        "Llama 3.1",
        ("<|start_header_id|>", "<|eot_id|>", "ipython"),
        "A turn may call one tool; the date is part of the text.",
    ),
    TemplateFamily(
        "Llama 3", ("<|start_header_id|>", "<|eot_id|>"), "Tool calls are dropped.", ("ipython",)
    ),
    TemplateFamily(
        "Phi 3",
        ("<|assistant|>", "<|end|>"),
        "Tool calls are dropped; an end-of-text token stands behind the last turn.",
        ("[gMASK]",),
    ),
    TemplateFamily(
        "Cohere", ("<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"), "Roles have to alternate."
    ),
    TemplateFamily("Idefics", ("<end_of_utterance>",), "Contents are lists of parts."),
    TemplateFamily(
        "Llama 2", ("[INST]", "[/INST]"), "There is no generation prompt; a turn follows [/INST]."
    ),
    TemplateFamily(
        "other reasoning models",
        ("<think>",),
        "Known by its think blocks alone.",
        declared=Declared((_OPEN_LINE, _EMPTY, _CLOSED)),
    ),
    TemplateFamily("ChatML", (IM_START,), "Nothing is special."),
)
"""The first that fits counts."""


def family_of(source: str) -> TemplateFamily | None:
    """The family that the text of a template shows."""
    return next((family for family in FAMILIES if family.fits(source)), None)


def declared_for(source: str) -> tuple[str | None, Declared]:
    """(name of the family, what is declared of it), by the text of a template."""
    found = family_of(source)
    return (found.name, found.declared) if found else (None, _NOTHING)
