"""Think blocks: the reasoning that stands in front of an answer, and what is not one block. Pure.

A content has at most one block, at its start. Templates of reasoning models write the opening mark
into the prompt, so a content may begin inside the block: then its first mark is a closing one, and
what stands before it is the reasoning. Every other order of marks is a fault with a name.
"""

import re
from typing import NamedTuple

THINK = "<think>\n"
"""The start of an answer that has its reasoning in front."""
TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<seed:think>": "</seed:think>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
"""The spellings of the marks: opening -> closing."""
NO_END = "think block without an end"
NO_START = "think block without a start"
MISPLACED = "think block that is not at the start"
NESTED = "think blocks inside one another"
SEVERAL = "more than one think block"
_SOLUTION_MARK = re.compile(r"<\|(?:begin|end)_of_solution\|>")


class Block(NamedTuple):
    """The think block of a content.

    ``reasoning``: None without a block. ``answer``: what follows it, or the whole content.
    ``implied``: the opening mark is missing. ``fault``: why it is not one block, or an empty text.
    """

    reasoning: str | None
    answer: str
    implied: bool = False
    fault: str = ""


def read_block(content: str, tags: dict[str, str] = TAGS) -> Block:
    """The think block of a content, in any of the spellings ``tags``."""
    text = content.lstrip()
    first = next((mark for mark in tags if text.startswith(mark)), None)
    if first is not None:
        return _after(text[len(first) :], first, tags[first])
    for opening, closing in tags.items():
        starts, ends = text.find(opening), text.find(closing)
        if starts >= 0 and (ends < 0 or starts < ends):
            return Block(None, content, fault=MISPLACED if ends >= 0 else NO_END)
        if ends >= 0:
            return _after(text, opening, closing)._replace(implied=True)
    return Block(None, content)


def _after(text: str, opening: str, closing: str) -> Block:
    """The block of a text that begins inside it."""
    reasoning, end, answer = text.partition(closing)
    if not end:
        return Block(None, text, fault=NO_END)
    if opening in reasoning:
        return Block(None, text, fault=NESTED)
    if opening in answer or closing in answer:
        return Block(None, text, fault=SEVERAL)
    return Block(reasoning, answer)


def block_fault(content: str) -> str:
    """Why the marks ``<think>`` and ``</think>`` of a content are not one block, or nothing."""
    if "think>" not in content:
        return ""
    block = read_block(content, {"<think>": "</think>"})
    return block.fault or NO_START * block.implied


def thought(reasoning: str | None, answer: str, *, calls: bool = False) -> str:
    """An answer with its reasoning in front: ``<think>``, reasoning, ``</think>``, answer.

    Blank reasoning adds nothing. A blank answer stays blank, because reasoning without an answer
    teaches a model not to answer; unless the turn ``calls`` tools, which is what it thought about.
    """
    if not reasoning or not reasoning.strip() or not (answer.strip() or calls):
        return answer
    return f"{THINK}{reasoning.strip()}\n</think>\n\n{answer.strip()}"


def canonical(block: Block, *, calls: bool = False) -> str:
    """The content of a block in the form of ``thought``, without marks around the solution."""
    if block.reasoning is None:
        return block.answer
    return thought(block.reasoning, _SOLUTION_MARK.sub("", block.answer).strip(), calls=calls)
