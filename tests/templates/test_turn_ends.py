"""A turn ends behind its last token of the end, and never holds what opens another."""

import pytest
from chat_templates import assistant, user
from small_templates import PROMPT, TALK, TOKENS, loop, spans

from pipeline_lib.templates.derivation import NOT_WRITTEN
from pipeline_lib.templates.derived import Declared
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.tracing.program import ChatInput


@pytest.mark.parametrize("after", ["<s>", "\n<s><user>", "<user>\n", "\n<bot>\n", "\n"])
def test_what_an_answer_writes_for_the_next_turn_is_not_trained(after: str) -> None:
    source = loop("{{ '<bot>\n' + m.content + '</s>" + after + "' }}")
    assert spans(source) == ["Yes</s>", "No</s>"]


def test_tokens_that_open_no_turn_belong_to_the_end() -> None:
    source = loop("{{ '<bot>\n' + m.content + '</think></s>\n' }}")
    assert spans(source) == ["Yes</think></s>", "No</think></s>"]


def test_the_token_that_begins_a_text_ends_a_turn_without_an_end_token() -> None:
    assert spans(loop("{{ '<bot>\n' + m.content + '\n<s>' }}")) == ["Yes\n", "No\n"]


def test_a_token_that_the_next_turn_writes_ends_a_turn_if_that_is_declared() -> None:
    """Also behind a token that closes a part of the turn."""
    source = loop("{{ '<bot>\n' + m.content + ('</think>' if m.content == 'Yes' else '') }}")
    known = Declared(stops=frozenset(("<user>",)))
    found = ModelTemplate(source, TOKENS, None, known).derive(ChatInput([*TALK, user("x")]))
    assert [found.text[s.start : s.stop] for s in found.spans] == ["Yes</think><user>", "No<user>"]


def test_a_turn_whose_words_are_not_written_is_context() -> None:
    """Training it would teach to say nothing."""
    source = loop("{{ '<bot>\n' }}{% if m.content is not string %}{{ m.content }}{% endif %}</s>")
    template = ModelTemplate(source, TOKENS)
    for words in ("Yes", "", "No", "  "):
        made = template.pieces(ChatInput([user("x"), assistant(words)]))
        assert made.facts.context_only == ({1: NOT_WRITTEN} if words.strip() else {})


def test_another_turns_words_never_lie_in_a_turn() -> None:
    source = loop("{{ '<bot>\n' + m.content + '</s>\n' }}", PROMPT + "{{ '</s>' }}")
    found = ModelTemplate(source, TOKENS).derive(ChatInput(TALK))
    assert all(found.text[s.start : s.stop].count("</s>") == 1 for s in found.spans)


def test_an_answer_of_which_nothing_is_left_is_named() -> None:
    found = ModelTemplate(loop("{{ '<bot>\n' + m.content }}"), TOKENS).derive(
        ChatInput([user("x"), assistant(""), user("y"), assistant("z")])
    )
    assert set(found.context_only) == {1}
    assert [s.message for s in found.spans] == [3]
