"""Invented prose for the offline sample: a small grammar over a few topics and languages.

Everything follows from one stream of raw 64-bit draws, so the same seed gives the same text
for ever. The grammar repeats words and turns of phrase enough for a tokenizer to find them and
for a tiny model to learn from, and varies enough that few paragraphs are equal.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from pipeline_lib.shuffling import Dice

Item = TypeVar("Item")


class Topic(NamedTuple):
    """The words of one subject."""

    name: str
    things: tuple[str, ...]
    deeds: tuple[str, ...]
    places: tuple[str, ...]
    qualities: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


TOPICS = (
    Topic(
        "the coast",
        _words("tide, harbour wall, lighthouse, fishing boat, sand bar, gull, storm, ferry, reef"),
        _words("rises slowly, turns before noon, shelters the boats, wears away, drifts north"),
        _words("the western bay, Kråkevik, the old pier, Saint-Malo, the outer islands"),
        _words("grey, restless, narrow, salt-stained, calm, distant"),
    ),
    Topic(
        "baking",
        _words("dough, rye loaf, oven, sourdough starter, crust, brioche, yeast, crème pâtissière"),
        _words(
            "rests overnight, doubles in size, browns evenly, needs more water, cools on a rack"
        ),
        _words("the village bakery, a warm kitchen, the Café Émile, the market hall"),
        _words("golden, elastic, sour, light, dense, fragrant"),
    ),
    Topic(
        "the night sky",
        _words(
            "comet, double star, planet, nebula, telescope, meteor shower, eclipse, spiral galaxy"
        ),
        _words(
            "rises after midnight, fades in a week, reflects the sun, moves westward, brightens"
        ),
        _words("the southern sky, the observatory, the Ångström ridge, the constellation Lyra"),
        _words("faint, brilliant, reddish, slow, periodic, unusually bright"),
    ),
    Topic(
        "gardens",
        _words("apple tree, compost heap, bean row, bumblebee, rose hedge, greenhouse, clay soil"),
        _words("flowers in May, needs little water, attracts bees, recovers after frost, spreads"),
        _words("the walled garden, the north border, the allotment, the château park"),
        _words("sunny, wild, sheltered, overgrown, fertile, dry"),
    ),
    Topic(
        "programs",
        _words("parser, cache, sorting function, test suite, memory leak, hash table, event loop"),
        _words("returns an empty list, fails on large input, runs in linear time, needs a lock"),
        _words("the main module, a worker thread, the standard library, production"),
        _words("recursive, fast, fragile, well tested, immutable, surprisingly short"),
    ),
    Topic(
        "music",
        _words(
            "violin, chorus, slow movement, drum pattern, melody, nocturne, accordion, rehearsal"
        ),
        _words("begins in a minor key, repeats the theme, fades out, surprises the audience"),
        _words("the concert hall, Dvořák's study, a small club in Łódź, the conservatory"),
        _words("quiet, joyful, syncopated, solemn, bright, unfinished"),
    ),
    Topic(
        "railways",
        _words("night train, signal box, timetable, bridge, freight wagon, tunnel, station clock"),
        _words("leaves on time, crosses the valley, waits for the express, opened in 1894"),
        _words("the border station, Zürich, the mountain line, platform nine"),
        _words("punctual, rusty, electric, crowded, scenic, steep"),
    ),
    Topic(
        "history",
        _words("chronicle, treaty, merchant, town charter, census, guild, manuscript, trade route"),
        _words("survives in two copies, was signed in spring, lost its privileges, grew rapidly"),
        _words("the old quarter, Kraków, the royal archive, the province of Åland"),
        _words("medieval, disputed, wealthy, short-lived, forgotten, influential"),
    ),
)

PEOPLE = _words(
    "Ida, Tomás, Noor, Zoë, Jürgen, Aiko, Priya, Søren, Łukasz, Marie, Amara, José, Wei"
)

FOREIGN = (
    ("French", "Où se trouve la gare ?", "La gare est près de la rivière, à gauche du marché."),
    (
        "French",
        "Pourquoi le ciel est-il bleu ?",
        "Parce que l'air diffuse surtout la lumière bleue.",
    ),
    ("German", "Wie spät ist es?", "Es ist kurz nach zwölf, der Zug fährt in fünf Minuten."),
    ("German", "Was kocht man im Winter?", "Zum Beispiel Grünkohl, Klöße oder eine Suppe."),
    (
        "Spanish",
        "¿Qué hacemos mañana?",
        "Mañana visitamos el jardín y después comemos en la plaza.",
    ),
    ("Polish", "Gdzie jest biblioteka?", "Biblioteka jest obok ratusza, za małym mostem."),
    ("Chinese", "今天天气怎么样？", "今天是晴天，下午有一点风，适合出去散步。"),
    ("Chinese", "怎么泡绿茶？", "水温大约八十度，泡两三分钟就可以了。"),
    ("Japanese", "駅はどこですか。", "駅は橋の向こうにあります。歩いて五分です。"),
    ("Russian", "Когда цветёт яблоня?", "Яблоня цветёт в мае, если весна тёплая."),
    ("Arabic", "أين المكتبة؟", "المكتبة قريبة من السوق، خلف المدرسة."),
)

EMOJI = ("🙂", "🌊", "🍞", "✨", "🚂", "👩‍🚀", "🎻", "🌱")

_OPENINGS = _words("As a rule, In most years, At first, Later, After the rain, Not far away, Still")
_QUESTIONS = (
    "What should I know about the {thing} in {place}?",
    "Why is the {thing} so {quality}?",
    "Can you explain how a {quality} {thing} differs from a {other}?",
    "Tell me about the {thing} near {place}, please.",
    "Give me two facts about {topic}: one about the {thing}, one about the {other}.",
    "Is it true that the {thing} {deed}?",
    "How would you describe the {thing} to a child?",
)
_SENTENCES = (
    "The {quality} {thing} {deed}.",
    "{opening} the {thing} {deed}, while the {other} stays {quality}.",
    "Near {place}, the {thing} {deed}.",
    "{person} says that the {thing} {deed} because the {other} is {quality}.",
    "There are {count} kinds of {thing}, and each one {deed}.",
    "In {place} people remember a {quality} {thing} and a {other}.",
    "Without the {other}, the {thing} would not be {quality}.",
)


class Voice:
    """Draws text from one stream of raw integers."""

    def __init__(self, seed: int, stream: int) -> None:
        self._dice = Dice(seed, stream)

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return low + self._dice.below(high - low + 1)

    def one_in(self, n: int) -> bool:
        """True once in n calls, on average."""
        return self._dice.below(n) == 0

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self._dice.below(len(items))]

    def hexes(self, digits: int) -> str:
        """A made-up identifier."""
        return "".join(self.pick("0123456789abcdef") for _ in range(digits))

    def topic(self) -> Topic:
        """One subject."""
        return self.pick(TOPICS)

    def sentence(self, topic: Topic) -> str:
        """One sentence on the topic."""
        return self._filled(self.pick(_SENTENCES), topic)

    def question(self, topic: Topic) -> str:
        """One question on the topic."""
        return self._filled(self.pick(_QUESTIONS), topic)

    def paragraph(self, topic: Topic, low: int = 2, high: int = 5) -> str:
        """A few sentences; now and then an emoji ends them."""
        text = " ".join(self.sentence(topic) for _ in range(self.between(low, high)))
        return f"{text} {self.pick(EMOJI)}" if self.one_in(25) else text

    def article(self, topic: Topic, title: str) -> str:
        """Headed sections as plain lines, a lead first and a stub of links last."""
        lead = f"{title} is a {self.pick(topic.qualities)} subject of {topic.name}."
        parts = [f"{lead} {self.paragraph(topic)}"]
        for heading in ("History", "Description", "Geography", "Legacy"):
            if not self.one_in(3):
                parts.append(f"{heading}\n{self.paragraph(topic, 3, 7)}")
        parts.append(f"See also\nList of {self.pick(topic.things)} articles")
        return "\n\n".join(parts)

    def sum_in_words(self) -> tuple[str, str, str]:
        """A small problem, the way to its answer, and the answer."""
        first, second, third = self.between(2, 60), self.between(2, 60), self.between(2, 9)
        person, thing = self.pick(PEOPLE), self.pick(self.topic().things)
        total = (first + second) * third
        problem = (
            f"{person} counts {first} of one kind of {thing} and {second} of another. "
            f"A neighbour has {third} times as many in all. How many does the neighbour have?"
        )
        way = (
            f"First add both kinds: {first} + {second} = {first + second}. "
            f"Then multiply by {third}: {first + second} x {third} = {total}."
        )
        return problem, way, str(total)

    def code(self) -> str:
        """A short function as a fenced block."""
        name, step = self.pick(_words("total, longest, count, first, spread")), self.between(2, 9)
        return (
            f"```python\ndef {name}(values):\n    # every {step}th value only\n"
            f"    return sum(value for value in values[::{step}] if value > 0)\n```"
        )

    def _filled(self, pattern: str, topic: Topic) -> str:
        return pattern.format(
            thing=self.pick(topic.things),
            other=self.pick(topic.things),
            deed=self.pick(topic.deeds),
            place=self.pick(topic.places),
            quality=self.pick(topic.qualities),
            opening=self.pick(_OPENINGS),
            person=self.pick(PEOPLE),
            count=self.between(2, 40),
            topic=topic.name,
        )
