"""Invented prose for the offline sample: a small grammar over a few topics and languages.

Everything follows from one stream of raw 64-bit draws, so the same seed gives the same text for
ever. Words and turns of phrase come again often enough for a tokenizer to find them and for a tiny
model to learn from them, yet few paragraphs are equal.
"""

from collections.abc import Sequence
from typing import TypeVar

from pipeline_lib import digest
from pipeline_lib.sampledata import words
from pipeline_lib.sampledata.words import Topic
from pipeline_lib.shuffling import Dice

Item = TypeVar("Item")

SAMPLE_VERSION = 2
"""Of all rows and texts of the sample; a sample of another version is made anew."""
SEED = 1_337

_NAMES = ("total", "longest", "count", "first", "spread")
_HEADINGS = ("History", "Description", "Geography", "Legacy")
_CODE = """```python
def {name}(values):
    # every {step}th value only
    return sum(value for value in values[::{step}] if value > 0)
```"""
_PROBLEM = (
    "{person} counts {first} of one kind of {thing} and {second} of another. A neighbour has "
    "{third} times as many in all. How many does the neighbour have?"
)
_WAY = (
    "First add both kinds: {first} + {second} = {both}. Then multiply by {third}: {both} x {third} "
    "= {total}."
)


def stream_of(name: str) -> int:
    """The stream of draws of one data set, or of the corpus."""
    return int(digest.sha256_bytes(f"sample {name}".encode())[:12], 16)


class Voice:
    """Draws text from one stream of raw integers."""

    def __init__(self, seed: int, stream: int) -> None:
        self._below = Dice(seed, stream).below

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return low + self._below(high - low + 1)

    def one_in(self, n: int) -> bool:
        """True once in n calls, on average."""
        return self._below(n) == 0

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self._below(len(items))]

    def rarely(self, n: int, odd: Sequence[Item], usual: Item) -> Item:
        """One of the odd items once in n calls, on average, else the usual one."""
        return self.pick(odd) if self.one_in(n) else usual

    def hexes(self, digits: int) -> str:
        """A made-up identifier."""
        return "".join([self.pick("0123456789abcdef") for _ in range(digits)])

    def topic(self) -> Topic:
        """One subject."""
        return self.pick(words.TOPICS)

    def sentence(self, topic: Topic) -> str:
        """One sentence on the topic."""
        return self._filled(self.pick(words.SENTENCES), topic)

    def question(self, topic: Topic) -> str:
        """One question on the topic."""
        return self._filled(self.pick(words.QUESTIONS), topic)

    def paragraph(self, topic: Topic, low: int = 2, high: int = 5) -> str:
        """A few sentences; now and then an emoji ends them."""
        text = " ".join(self.sentence(topic) for _ in range(self.between(low, high)))
        return f"{text} {self.pick(words.EMOJI)}" if self.one_in(25) else text

    def article(self, topic: Topic, title: str) -> str:
        """Headed sections as plain lines, a lead first and a stub of links last."""
        lead = f"{title} is a {self.pick(topic.qualities)} subject of {topic.name}."
        parts = [f"{lead} {self.paragraph(topic)}"]
        for heading in _HEADINGS:
            if not self.one_in(3):
                parts.append(f"{heading}\n{self.paragraph(topic, 3, 7)}")
        parts.append(f"See also\nList of {self.pick(topic.things)} articles")
        return "\n\n".join(parts)

    def sum_in_words(self) -> tuple[str, str, str]:
        """A small problem, the way to its answer, and the answer."""
        first, second, third = self.between(2, 60), self.between(2, 60), self.between(2, 9)
        facts = {"first": first, "second": second, "third": third, "both": first + second}
        total = (first + second) * third
        person, thing = self.pick(words.PEOPLE), self.pick(self.topic().things)
        problem = _PROBLEM.format(person=person, thing=thing, **facts)
        return problem, _WAY.format(total=total, **facts), str(total)

    def code(self) -> str:
        """A short function as a fenced block."""
        name, step = (
            self.pick(words.words("total, longest, count, first, spread")),
            self.between(2, 9),
        )
        return _CODE.format(name=name, step=step)

    def _filled(self, pattern: str, topic: Topic) -> str:
        return pattern.format(
            thing=self.pick(topic.things),
            other=self.pick(topic.things),
            deed=self.pick(topic.deeds),
            place=self.pick(topic.places),
            quality=self.pick(topic.qualities),
            opening=self.pick(words.OPENINGS),
            person=self.pick(words.PEOPLE),
            count=self.between(2, 40),
            topic=topic.name,
        )
