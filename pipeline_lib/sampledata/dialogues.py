"""More rows of the offline sample: dialogues, some of them judged, each set with its oddities."""

import re
from collections.abc import Iterator
from typing import Any

from pipeline_lib.sampledata.prose import FOREIGN, Topic, Voice
from pipeline_lib.sampledata.rows import Exchange, Row, awkward, exchange
from pipeline_lib.sampledata.schemas import EARLY, SLASHED

_MODELS = ("vicuna-13b", "koala-13b", "alpaca-13b", "gpt-4", "claude-1")
_REPLIES = ("That's nice, I'd say.", "You're right; it doesn't matter.", "I've heard that, too!")
_PERSONAS = ("I keep bees.", "I hate mornings.", "I paint boats.", "I have a twin.", "I bake rye.")
_SPLIT_MARKS = re.compile(r"\s*([.,!?;:’])\s*")


def messages(turns: Exchange) -> list[dict[str, Any]]:
    """Turns as rows hold them."""
    return [{"content": content, "role": role} for role, content in turns]


def moderation(names: tuple[str, ...], flagged: bool) -> dict[str, Any]:
    """What a moderation service said of one message."""
    return {
        "categories": {name: flagged and name == "violence" for name in names},
        "category_scores": {name: 0.9 if flagged else 0.0001 for name in names},
        "flagged": flagged,
    }


def ultrachat(voice: Voice, rows: int) -> Iterator[Row]:
    """Conversations between two models; the prompt column repeats the first message."""
    for _ in range(rows):
        topic = voice.topic()
        turns = awkward(voice, topic) if voice.one_in(24) else exchange(voice, topic)
        yield {
            "prompt": turns[0][1] if turns else "",
            "prompt_id": voice.hexes(64),
            "messages": messages(turns),
        }


def lmsys(voice: Voice, rows: int) -> Iterator[Row]:
    """Open conversations with many models; some messages are flagged, some names replaced."""
    for _ in range(rows):
        topic, language = voice.topic(), voice.pick(("English",) * 9 + ("unknown",))
        turns = awkward(voice, topic) if voice.one_in(24) else exchange(voice, topic)
        if voice.one_in(10):
            language, question, answer = voice.pick(FOREIGN)
            turns = [("user", question), ("assistant", answer)]
        redacted, unsafe = voice.one_in(20), voice.one_in(40)
        if redacted:
            turns = [("user", "Write to NAME_1 and NAME_2."), ("assistant", "Dear NAME_1, hello.")]
        yield {
            "conversation_id": voice.hexes(32),
            "model": voice.pick(_MODELS),
            "conversation": messages(turns),
            "turn": (len(turns) + 1) // 2,
            "language": language,
            "openai_moderation": [
                moderation(SLASHED, unsafe and place == 0) for place in range(len(turns))
            ]
            if not voice.one_in(50)
            else None,
            "redacted": redacted,
        }


def arena(voice: Voice, rows: int) -> Iterator[Row]:
    """Two models answer one user, who says which was better."""
    for number in range(rows):
        topic = voice.topic()
        first, second = _battle(voice, topic)
        winner = voice.pick(("model_a", "model_b"))
        if voice.one_in(20):
            winner = voice.pick(("tie", "tie (bothbad)"))
        unsafe = voice.one_in(60)
        yield {
            "question_id": voice.hexes(32),
            "model_a": voice.pick(_MODELS[:2]),
            "model_b": voice.pick(_MODELS[2:]),
            "winner": winner,
            "judge": f"arena_user_{voice.between(1, 300)}",
            "conversation_a": messages(first),
            "conversation_b": messages(second),
            "turn": sum(role == "user" for role, _ in first),
            "anony": not voice.one_in(9),
            "language": "English",
            "tstamp": 1_682_351_591.5 + 60 * number,
            "openai_moderation": moderation(EARLY, unsafe),
            "toxic_chat_tag": {
                "roberta-large": {"flagged": unsafe, "probability": 0.01},
                "t5-large": {"flagged": unsafe, "score": 0.0},
            },
        }


def _battle(voice: Voice, topic: Topic) -> tuple[Exchange, Exchange]:
    ask = ("user", voice.question(topic))
    left: Exchange = [ask, ("assistant", voice.paragraph(topic))]
    right: Exchange = [ask, ("assistant", voice.paragraph(topic, 1, 3))]
    if voice.one_in(5):  # the user goes on, with the same words on both sides
        more = ("user", voice.question(topic))
        left = [*left, more, ("assistant", voice.sentence(topic))]
        right = [*right, more, ("assistant", voice.sentence(topic))]
    if voice.one_in(24):
        odd: tuple[tuple[Exchange, Exchange], ...] = (
            (left, left),
            (left, [ask, ("assistant", "")]),
            (left, [ask]),
            ([("assistant", "Hello!"), *left], right),
        )
        return voice.pick(odd)
    return left, right


def dailydialog(voice: Voice, rows: int) -> Iterator[Row]:
    """Small talk of two people, cut into words and marks by spaces."""
    for _ in range(rows):
        topic = voice.topic()
        lines = [
            voice.question(topic) if place % 2 == 0 else f"{voice.pick(_REPLIES)} {part}"
            for place, part in enumerate(voice.sentence(topic) for _ in range(voice.between(2, 9)))
        ]
        if voice.one_in(40):
            lines = voice.pick((lines[:1], [*lines[:1], "  ", *lines[1:]], []))
        yield {
            "dialog": [spaced(line) for line in lines],
            "act": [1 + place % 4 for place in range(len(lines))],
            "emotion": [voice.between(0, 6) for _ in lines],
        }


def spaced(text: str) -> str:
    """The text as a tokeniser of old left it: marks on their own, a space behind."""
    return _SPLIT_MARKS.sub(r" \1 ", text.replace("'", "’")).rstrip() + " "


def bst(voice: Voice, rows: int) -> Iterator[Row]:
    """Talk of two people in two lists, behind a first exchange; the lists may differ by one."""
    for _ in range(rows):
        topic = voice.topic()
        rounds = voice.between(3, 6)
        free = [voice.question(topic) for _ in range(rounds)]
        guided = [voice.sentence(topic) for _ in range(rounds)]
        if voice.one_in(12):
            free, guided = voice.pick(((free, guided[:-1]), (free[:-1], guided)))
        opening = [voice.question(topic), voice.sentence(topic)]
        if voice.one_in(60):
            opening = voice.pick(([], ["", ""], opening[:1]))
        yield {
            "personas": [voice.pick(_PERSONAS) for _ in range(4)],
            "additional_context": voice.pick(("", topic.name)),
            "previous_utterance": opening,
            "context": voice.pick(("empathetic_dialogues", "convai2", "wizard_of_wikipedia")),
            "free_messages": free,
            "guided_messages": guided,
            "suggestions": {
                name: [voice.sentence(topic) for _ in guided]
                for name in ("convai2", "empathetic_dialogues", "wizard_of_wikipedia")
            },
            "guided_chosen_suggestions": [voice.pick(("", "convai2")) for _ in guided],
            "label_candidates": [],
        }
