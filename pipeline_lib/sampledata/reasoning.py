"""More rows of the offline sample: answers with reasoning, kept in three different ways."""

from collections.abc import Iterator
from typing import Any

from pipeline_lib.sampledata.prose import Voice
from pipeline_lib.sampledata.rows import Row

_LICENCES = ("CC BY 4.0",) * 8 + ("CC BY-SA 4.0", "CC BY-NC 4.0")
_KINDS = ("Algebra", "Number Theory", "Combinatorics")


def openr1_math(voice: Voice, rows: int) -> Iterator[Row]:
    """Problems with several attempts, each judged twice; lists of verdicts may be null."""
    for _ in range(rows):
        problem, way, answer = voice.sum_in_words()
        good = f"<think>\n{way}\n</think>\n\nThe answer is {answer}."
        attempts, complete, right = [good], [True], [True]
        for _ in range(voice.between(1, 3)):
            kind = voice.between(0, 2)
            attempts.append(_attempt(kind, way, answer))
            complete.append(kind != 2)
            right.append(kind == 0)
        told = attempts[0]
        if voice.one_in(30):
            told = voice.pick((f"<think>\n{way}", f"<think>\n\n</think>\n\n{answer}.", ""))
        yield {
            "problem": problem,
            "solution": way,
            "answer": answer,
            "problem_type": voice.pick(_KINDS),
            "question_type": "math-word-problem",
            "source": "made_up",
            "uuid": f"{voice.hexes(8)}-{voice.hexes(12)}",
            "is_reasoning_complete": complete,
            "generations": attempts,
            "correctness_math_verify": right if not voice.one_in(8) else None,
            "correctness_llama": right if voice.one_in(8) else None,
            "finish_reasons": None
            if voice.one_in(3)
            else ["stop" if done else "length" for done in complete],
            "correctness_count": sum(right),
            "messages": [
                {"content": problem, "role": "user"},
                {"content": told, "role": "assistant"},
            ],
        }


def _attempt(kind: int, way: str, answer: str) -> str:
    if kind == 0:
        return f"<think>\nSlowly. {way}\n</think>\n\nIt is {answer}."
    if kind == 1:
        return f"<think>\nI guess.\n</think>\n\nThe answer is {int(answer) + 1}."
    return f"<think>\nWait, {way} Wait"


def general_thought(voice: Voice, rows: int) -> Iterator[Row]:
    """Questions answered by several models, some of which hide their reasoning."""
    number, topic, question = 0, voice.topic(), ""
    for _ in range(rows):
        if not question or not voice.one_in(3):  # else the next model answers the same question
            number, topic = number + 1, voice.topic()
            question = voice.question(topic)
        reasoning: str | None = f"The question is about {topic.name}. {voice.paragraph(topic)}"
        answer: str | None = voice.paragraph(topic, 1, 3)
        if voice.one_in(8):
            reasoning = voice.pick((None, "", " \n"))
        if voice.one_in(50):
            answer = voice.pick((None, ""))
        before: list[dict[str, Any]] | None = None
        if voice.one_in(12):
            before = [
                {"content": voice.question(topic), "role": "user"},
                {"content": voice.sentence(topic), "role": "assistant"},
            ][: voice.between(0, 2)]
        verified = voice.one_in(2)
        yield {
            "question_id": number,
            "question_url": f"https://example.org/q/{number}",
            "question": question,
            "reference_answer": voice.sentence(topic) if verified else None,
            "prev_messages": before,
            "model_name": voice.pick(("R-tiny", "R-small", "o-hidden")),
            "model_answer": answer,
            "model_reasoning": reasoning,
            "task": topic.name,
            "question_license": voice.pick(("MIT", "MIT", "Apache-2.0", "CC-BY-NC-4.0", None))
            if voice.one_in(6)
            else "MIT",
            "question_source": "made_up",
            "community_answer_score": float(voice.between(0, 9)),
            "community_question_score": voice.between(0, 9),
            "verifier_score": float(voice.between(0, 1)) if verified else None,
        }


def nemotron(voice: Voice, rows: int) -> Iterator[Row]:
    """Answers with reasoning switched on or off by the system prompt, a licence in every row."""
    for _ in range(rows):
        topic = voice.topic()
        asked = [{"role": "user", "content": voice.question(topic)}]
        if voice.one_in(10):
            earlier = {"role": "assistant", "content": voice.sentence(topic)}
            asked = [*asked, earlier, {"role": "user", "content": voice.question(topic)}]
        reasoned, answer = voice.one_in(2), voice.paragraph(topic, 1, 4)
        output = f"<think>\n{voice.paragraph(topic)}\n</think>\n\n{answer}" if reasoned else answer
        if voice.one_in(14):
            asked, output = voice.pick(
                (
                    (asked, f"<think>\n\n</think>\n\n{answer}"),
                    (asked, f"<think>\n{voice.paragraph(topic)}"),
                    (asked, "<think>\nno answer follows\n</think>"),
                    ([{"role": "system", "content": "Be brief."}], answer),
                    ([{"role": "system", "content": "Be brief."}, *asked], answer),
                    ([], answer),
                )
            )
        yield {
            "input": asked,
            "output": output,
            "category": "science",
            "license": voice.pick(_LICENCES) if voice.one_in(3) else "CC BY 4.0",
            "reasoning": "on" if reasoned else "off",
            "generator": "G-large",
            "used_in_training": voice.pick(("Ultra", "Nano", "")),
            "version": "v1.1",
            "system_prompt": f"detailed thinking {'on' if reasoned else 'off'}",
        }
