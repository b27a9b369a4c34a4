"""Families are told by the text of a template; a wrong one does no harm; the README is true."""

from pathlib import Path

import family_table
import pytest
from chat_templates import (
    KEYWORDS,
    ORIGINAL,
    PATCHED,
    assistant,
    control_of,
    derivation,
    model,
    shapes_for,
    user,
)
from hand_masks import trained

from pipeline_lib.templates.derivation import Deriver
from pipeline_lib.templates.derived import Declared
from pipeline_lib.templates.families import FAMILIES, declared_for, family_of
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.tracing.program import ChatInput

README = Path(__file__).parent.parent.parent / "README.md"
MEMBERS = {
    "gpt-oss": ["gptoss"],
    "Muse Glimmer": ["muse_glimmer"],
    "Gemma 4": ["diffusion_gemma", *(f"gemma4{v}" for v in ("", "_v2", "_v3", "_v4", "_v5"))],
    "Gemma": ["gemma", "gemma3"],
    "DeepSeek": ["deepseek_r1_distill", "deepseekv3"],
    "GLM": ["glm4moe"],
    "Nemotron 3": [f"nemotron_3_{v}" for v in ("5_lightning", "nano", "super", "ultra")],
    "Qwen 3.5": ["qwen3_5_nothink", "qwen3_5_think", "qwen3_6", "qwen3_8"],
    "LFM2.5": ["lfm2_2_5", "lfm2_2_5_v2", "lfm2_2_5_vl"],
    "LFM2": ["lfm2", "lfm2_v2"],
    "Qwen 3": ["qwen3"],
    "Qwen 2.5": ["qwen2_5", "qwen3_instruct_2507", "qwen3_vl"],
    "Qwen 2.5 VL": ["qwen2_5_vl"],
    "Llama 3.1": ["llama3_1", "llama3_2"],
    "Llama 3": ["llama3"],
    "Phi 3": ["phi3", "phi3_5"],
    "Cohere": ["cohere", "cohere2"],
    "Idefics": ["idefics3", "smolvlm"],
    "Llama 2": ["llava_next"],
}
LOOP = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}"
ENDED_BY_THE_NEXT = """
{%- set start = '<|assistant_start|>' %}{% set ns = namespace(open=false) -%}
{%- set thoughts = '<|inner_prefix|>' -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{%- if ns.open %}{{ '<|assistant_end|>' }}{% set ns.open = false %}{% endif -%}
{{ '<|user_start|>' + m.content + '<|user_end|>' }}
{%- else -%}
{{ start + m.content }}{% set ns.open = true %}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ start }}{% endif -%}
"""
"""As Apertus does: what ends a turn is written by the turn behind it."""
OWN = {
    "ChatML": LOOP + "{% endfor %}",
    "other reasoning models": "{{ '[|assistant|]<think>\n' }}",
    "Apertus": ENDED_BY_THE_NEXT,
}


def test_each_template_shows_its_family() -> None:
    found: dict[str, list[str]] = {}
    for name, path in ORIGINAL.items():
        found.setdefault(str(declared_for(path.read_text())[0]), []).append(name)
    assert found == MEMBERS
    for name, source in OWN.items():
        assert declared_for(source)[0] == name
    assert {family.name for family in FAMILIES} == MEMBERS.keys() | OWN.keys()
    assert declared_for("{{ messages[0].content }}") == (None, Declared())
    assert family_of("") is None


def test_a_template_patched_for_training_shows_the_same_family() -> None:
    for name, path in PATCHED.items():
        assert declared_for(path.read_text()) == declared_for(ORIGINAL[name].read_text())


def test_each_family_has_one_sentence_for_people() -> None:
    assert all(family.note.endswith(".") and len(family.note) < 100 for family in FAMILIES)
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_a_turn_that_the_next_one_ends_is_trained_to_its_end() -> None:
    control = control_of(ENDED_BY_THE_NEXT)
    known = declared_for(ENDED_BY_THE_NEXT)[1]
    template = ModelTemplate(ENDED_BY_THE_NEXT, control, KEYWORDS, known)
    found = template.derive(ChatInput([user("a"), assistant("b"), user("c"), assistant("d")]))
    assert [found.text[s.start : s.stop] for s in found.spans] == ["b<|assistant_end|>", "d"]
    assert "no end-of-turn token" in found.notes
    bare = ModelTemplate(ENDED_BY_THE_NEXT, control, KEYWORDS).derive(
        ChatInput([user("a"), assistant("b"), user("c")])
    )
    assert [bare.text[s.start : s.stop] for s in bare.spans] == ["b"]


ALL_DECLARED = [*dict.fromkeys(f.declared for f in FAMILIES)]


def trained_beside(name: str, known: Declared, shapes: list[str]) -> list[tuple[str, str]]:
    """Shapes with a character that is trained only when another family's is declared."""
    template, wrong = model(name), []
    deriver = Deriver(template.program, control_of(template.program.source), known)
    for shape in shapes:
        right = derivation(name, shape)
        if right and trained(deriver.derive(shapes_for(name)[shape])) - trained(right):
            wrong.append((name, shape))
    return wrong


def test_what_is_declared_of_another_family_costs_turns_and_trains_nothing_else() -> None:
    for place, (name, path) in enumerate(ORIGINAL.items()):
        one = ALL_DECLARED[place % len(ALL_DECLARED)]
        nothing = declared_for(path.read_text())[1] == Declared()
        for known in [one] if nothing else ALL_DECLARED:
            assert not trained_beside(name, known, ["three turns"])


@pytest.mark.long
@pytest.mark.parametrize("name", ORIGINAL)
def test_no_declaration_trains_more_than_the_right_one(name: str) -> None:
    for known in ALL_DECLARED:
        assert not trained_beside(name, known, [*shapes_for(name)])


def test_the_table_of_the_readme_is_what_comes_out() -> None:
    found = family_table.markdown()
    assert found in README.read_text(), f"put this into README.md:\n{found}"
