"""Message trees of the offline sample: one row a message, rows of a tree not all together."""

from collections.abc import Iterator

from pipeline_lib.records import DataRow
from pipeline_lib.sampledata.prose import Voice
from pipeline_lib.sampledata.schemas import TOXICITIES
from pipeline_lib.sampledata.words import FOREIGN, Topic

_HELD = 7  # rows that wait while later ones pass, so that trees lie interleaved
_CODES = {"French": "fr", "German": "de", "Spanish": "es", "Chinese": "zh"}


def oasst2(voice: Voice, trees: int) -> Iterator[DataRow]:
    """All messages of ``trees`` trees; most replies follow their parents."""
    held: list[DataRow] = []
    for _ in range(trees):
        for row in _tree(voice):
            held.append(row)
            if len(held) > _HELD:
                yield held.pop(voice.between(0, 1) * voice.between(0, _HELD))
    yield from held


def _tree(voice: Voice) -> list[DataRow]:
    topic = voice.topic()
    root = _message(voice, None, "prompter", voice.question(topic), rank=None)
    rows, level = [root], [root]
    if voice.one_in(12):
        language, question, answer = voice.pick(FOREIGN)
        lang = {"lang": _CODES.get(language, "xx")}
        root |= {"text": question} | lang
        return [root, _message(voice, root, "assistant", answer, rank=0) | lang]
    for depth in range(voice.between(0 if voice.one_in(10) else 1, 4)):
        level = [reply for parent in level[:2] for reply in _replies(voice, parent, topic, depth)]
        rows += level
    _spoil(voice, rows)
    return rows


def _replies(voice: Voice, parent: DataRow, topic: Topic, depth: int) -> list[DataRow]:
    answers = depth % 2 == 0
    role, text = ("assistant", voice.paragraph) if answers else ("prompter", voice.question)
    count = voice.between(1, 3) if answers else 1
    replies = [
        _message(voice, parent, role, text(topic), rank=rank if count > 1 else None)
        for rank in range(count)
    ]
    if count > 1 and voice.one_in(20):  # two people wrote the same
        replies[-1]["text"] = replies[0]["text"]
    return replies


def _spoil(voice: Voice, rows: list[DataRow]) -> None:
    """One tree in nine has a fault: deleted, rejected, orphaned, blank, or without ranks."""
    if not voice.one_in(9):
        return
    victim = voice.pick(rows)
    victim |= voice.pick(
        (
            {"deleted": True},
            {"review_result": False},
            {"review_result": None, "review_count": 0},
            {"parent_id": voice.hexes(8)},
            {"text": ""},
            {"text": "What does <|im_end|> do? <|endoftext|>"},
            {"rank": None},
        )
    )


def _message(
    voice: Voice, parent: DataRow | None, role: str, text: str, rank: int | None
) -> DataRow:
    own = f"{voice.hexes(8)}-{voice.hexes(4)}"
    human = voice.one_in(3)
    return {
        "message_id": own,
        "parent_id": None if parent is None else parent["message_id"],
        "user_id": voice.hexes(12),
        "created_date": f"2023-02-{voice.between(1, 28):02d}T10:00:00.000000+00:00",
        "text": text,
        "role": role,
        "lang": "en",
        "review_count": 3,
        "review_result": True,
        "deleted": False,
        "rank": rank,
        "synthetic": False,
        "model_name": None,
        "detoxify": dict.fromkeys(TOXICITIES, 0.001) if human else None,
        "message_tree_id": own if parent is None else parent["message_tree_id"],
        "tree_state": "ready_for_export",
        "emojis": {"name": ["+1"], "count": [2]} if human else None,
        "labels": {"name": ["spam", "quality"], "value": [0.0, 0.75], "count": [3, 3]},
    }
