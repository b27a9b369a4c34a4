"""Preferences of the offline sample: two answers to one prompt, and a verdict."""

from collections.abc import Iterator

from pipeline_lib.records import DataRow
from pipeline_lib.sampledata.dialogues import MODELS
from pipeline_lib.sampledata.exchanges import Exchange, exchange, messages, moderation
from pipeline_lib.sampledata.prose import Voice
from pipeline_lib.sampledata.schemas import EARLY
from pipeline_lib.sampledata.words import Topic


def ultrafeedback(voice: Voice, rows: int) -> Iterator[DataRow]:
    """One prompt with a chosen and a rejected answer; some pairs teach nothing."""
    for _ in range(rows):
        topic, other = voice.topic(), voice.topic()
        turns = exchange(voice, topic)
        better, worse = voice.between(60, 99) / 10, voice.between(10, 59) / 10
        prompt, (_, answer) = turns[:-1], turns[-1]
        rejected: Exchange = [*prompt, ("assistant", voice.sentence(other))]
        odd: tuple[tuple[Exchange, float], ...] = (
            (turns, better),
            ([*prompt, ("assistant", "")], worse),
            ([*prompt, ("assistant", f"{answer} ")], worse),
            (prompt, worse),
            (rejected, better),
        )
        rejected, worse = voice.rarely(16, odd, (rejected, worse))
        yield {
            "prompt": turns[0][1],
            "prompt_id": voice.hexes(64),
            "chosen": messages(turns),
            "rejected": messages(rejected),
            "messages": messages(turns),
            "score_chosen": better,
            "score_rejected": worse,
        }


def arena(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Two models answer one user, who says which was better."""
    for number in range(rows):
        first, second = _battle(voice, voice.topic())
        winner = voice.pick(("model_a", "model_b"))
        winner = voice.rarely(20, ("tie", "tie (bothbad)"), winner)
        unsafe = voice.one_in(60)
        yield {
            "question_id": voice.hexes(32),
            "model_a": voice.pick(MODELS[:2]),
            "model_b": voice.pick(MODELS[2:]),
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
    odd: tuple[tuple[Exchange, Exchange], ...] = (
        (left, left),
        (left, [ask, ("assistant", "")]),
        (left, [ask]),
        ([("assistant", "Hello!"), *left], right),
    )
    return voice.rarely(24, odd, (left, right))
