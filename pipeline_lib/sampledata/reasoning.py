"""Answers with reasoning in the offline sample; each data set marks it in its own way."""

from collections.abc import Iterator

from pipeline_lib.records import DataRow
from pipeline_lib.sampledata.exchanges import messages
from pipeline_lib.sampledata.prose import Voice

_LICENCES = ("CC BY 4.0",) * 8 + ("CC BY-SA 4.0", "CC BY-NC 4.0")
_KINDS = ("Algebra", "Number Theory", "Combinatorics")
_BEGIN, _END = "<|begin_of_thought|>\n\n", "\n\n<|end_of_thought|>\n\n"
_SYSTEM = (
    "Your role as an assistant involves thoroughly exploring questions through a systematic "
    "long thinking process before providing the final precise and accurate solutions."
)


def openthoughts(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Problems with marked reasoning and solution."""
    for _ in range(rows):
        problem, way, answer = voice.sum_in_words()
        musing = voice.paragraph(voice.topic(), 1, 3)
        thought = f"{way} Let me check: {musing} So {answer} it is."
        solution = f"<|begin_of_solution|>\n\nThe answer is {answer}.\n\n<|end_of_solution|>"
        odd = (
            f"{_BEGIN}{thought}",
            f"{_BEGIN}{_END}{solution}",
            f"<think>\n{thought}\n</think>\n\nThe answer is {answer}.",
            f"{_BEGIN}{' '.join([thought] * 60)}{_END}{solution}",
            solution,
            "",
            None,
        )
        value = voice.rarely(20, odd, f"{_BEGIN}{thought}{_END}{solution}")
        said = [{"from": "user", "value": problem}, {"from": "assistant", "value": value}]
        yield {"system": _SYSTEM, "conversations": said[:1] if voice.one_in(60) else said}


def openr1_math(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Problems with several attempts, each judged twice; lists of verdicts may be null."""
    for _ in range(rows):
        problem, way, answer = voice.sum_in_words()
        told = f"<think>\n{way}\n</think>\n\nThe answer is {answer}."
        further = (
            f"<think>\nSlowly. {way}\n</think>\n\nIt is {answer}.",
            f"<think>\nI guess.\n</think>\n\nThe answer is {int(answer) + 1}.",
            f"<think>\nWait, {way} Wait",
        )
        attempts, complete, right = [told], [True], [True]
        for _ in range(voice.between(1, 3)):
            kind = voice.between(0, 2)
            attempts.append(further[kind])
            complete.append(kind != 2)
            right.append(kind == 0)
        odd = (f"<think>\n{way}", f"<think>\n\n</think>\n\n{answer}.", "")
        told = voice.rarely(30, odd, told)
        ends = ["stop" if done else "length" for done in complete]
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
            "correctness_math_verify": None if voice.one_in(8) else right,
            "correctness_llama": right if voice.one_in(8) else None,
            "finish_reasons": None if voice.one_in(3) else ends,
            "correctness_count": sum(right),
            "messages": messages([("user", problem), ("assistant", told)]),
        }


def general_thought(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Questions answered by several models, some of which hide their reasoning."""
    number, topic, question = 0, voice.topic(), ""
    for _ in range(rows):
        if not question or not voice.one_in(3):  # else the next model answers the same question
            number, topic = number + 1, voice.topic()
            question = voice.question(topic)
        reasoning = f"The question is about {topic.name}. {voice.paragraph(topic)}"
        answer = voice.paragraph(topic, 1, 3)
        hidden = voice.rarely(8, (None, "", " \n"), reasoning)
        given = voice.rarely(50, (None, ""), answer)
        before = None
        if voice.one_in(12):
            told = [("user", voice.question(topic)), ("assistant", voice.sentence(topic))]
            before = messages([*told])[: voice.between(0, 2)]
        verified = voice.one_in(2)
        yield {
            "question_id": number,
            "question_url": f"https://example.org/q/{number}",
            "question": question,
            "reference_answer": voice.sentence(topic) if verified else None,
            "prev_messages": before,
            "model_name": voice.pick(("R-tiny", "R-small", "o-hidden")),
            "model_answer": given,
            "model_reasoning": hidden,
            "task": topic.name,
            "question_license": voice.rarely(
                6, ("MIT", "MIT", "Apache-2.0", "CC-BY-NC-4.0", None), "MIT"
            ),
            "question_source": "made_up",
            "community_answer_score": float(voice.between(0, 9)),
            "community_question_score": voice.between(0, 9),
            "verifier_score": float(voice.between(0, 1)) if verified else None,
        }


def nemotron(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Answers with reasoning switched on or off by the system prompt, a licence in every row."""
    for _ in range(rows):
        topic = voice.topic()
        asked = messages([("user", voice.question(topic))])
        if voice.one_in(10):
            earlier, more = voice.sentence(topic), voice.question(topic)
            asked += messages([("assistant", earlier), ("user", more)])
        reasoned, answer = voice.one_in(2), voice.paragraph(topic, 1, 4)
        output = f"<think>\n{voice.paragraph(topic)}\n</think>\n\n{answer}" if reasoned else answer
        if voice.one_in(14):
            brief = messages([("system", "Be brief.")])
            asked, output = voice.pick(
                (
                    (asked, f"<think>\n\n</think>\n\n{answer}"),
                    (asked, f"<think>\n{voice.paragraph(topic)}"),
                    (asked, "<think>\nno answer follows\n</think>"),
                    (brief, answer),
                    (brief + asked, answer),
                    ([], answer),
                )
            )
        switch = "on" if reasoned else "off"
        yield {
            "input": asked,
            "output": output,
            "category": "science",
            "license": voice.rarely(3, _LICENCES, "CC BY 4.0"),
            "reasoning": switch,
            "generator": "G-large",
            "used_in_training": voice.pick(("Ultra", "Nano", "")),
            "version": "v1.1",
            "system_prompt": f"detailed thinking {switch}",
        }
