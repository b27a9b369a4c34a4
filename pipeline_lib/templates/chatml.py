"""ChatML as this project writes it: the only template of tokenizers that are trained here.

A turn is ``<|im_start|>role<|im_sep|>content<|im_end|>``. Nothing stands between turns: the text of
a conversation is the texts of its turns, one after another.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline_lib.records import ROLES, Turn
from pipeline_lib.tokenization.control_tokens import IM_END, IM_SEP, IM_START

TEMPLATE = (
    "{% for message in messages %}"
    f"{{{{ '{IM_START}' + message['role'] + '{IM_SEP}' }}}}"
    "{% if message['role'] == 'assistant' and message['learn'] is not false %}"
    "{% generation %}{{ message['content'] }}"
    f"{{% if not message['cut'] %}}{{{{ '{IM_END}' }}}}{{% endif %}}{{% endgeneration %}}"
    f"{{% if message['cut'] %}}{{{{ '{IM_END}' }}}}{{% endif %}}"
    f"{{% else %}}{{{{ message['content'] + '{IM_END}' }}}}{{% endif %}}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{{{{ '{IM_START}assistant{IM_SEP}' }}}}{{% endif %}}"
)
"""``render`` in the language of chat templates, for users of ``transformers``.

``transformers`` turns control tokens inside a content into control ids; only ``segments`` keeps
them text.
"""


RENDERED_ROLES = ROLES[:3]
"""The roles that ChatML has: system, user and assistant."""


class Segment(NamedTuple):
    """A piece of rendered text. ``control``: a control token. ``trained``: the loss includes it."""

    text: str
    control: bool
    trained: bool


def segments(turns: Iterable[Turn]) -> Iterator[Segment]:
    """The pieces of the rendered turns, in order; ``ValueError`` for what ChatML does not have: a
    role not in ``RENDERED_ROLES``, tool calls, and tools that a conversation was offered.

    The loss includes the content of an assistant turn and the ``<|im_end|>`` after it; nothing of a
    turn with ``learn`` false, and not the ``<|im_end|>`` of a cut one.
    """
    _check_tools(getattr(turns, "tools", None), "tools of a conversation")
    for turn in turns:
        if turn["role"] not in RENDERED_ROLES:
            raise ValueError(
                f"role {turn['role']!r} can not be rendered; known are {RENDERED_ROLES}"
            )
        _check_tools(turn.get("tool_calls"), "tool calls")
        trained = turn["role"] == "assistant" and turn.get("learn", True)
        yield Segment(IM_START, True, False)
        yield Segment(turn["role"], False, False)
        yield Segment(IM_SEP, True, False)
        yield Segment(turn["content"], False, trained)
        yield Segment(IM_END, True, trained and not turn.get("cut", False))


def _check_tools(found: object, what: str) -> None:
    if found:
        raise ValueError(f"{what} can not be rendered by ChatML; use a model's own chat template")


def render(turns: Iterable[Turn]) -> str:
    """The ChatML text of a conversation: the texts of its turns, one after another.

    A turn is ``{"role": ..., "content": ...}``; ``ValueError`` as ``segments``.
    """
    return "".join(segment.text for segment in segments(turns))
