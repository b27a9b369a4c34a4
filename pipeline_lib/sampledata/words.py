"""The words of the offline sample: subjects, people, questions in other languages, patterns."""

from typing import NamedTuple


class Topic(NamedTuple):
    """The words of one subject."""

    name: str
    things: tuple[str, ...]
    deeds: tuple[str, ...]
    places: tuple[str, ...]
    qualities: tuple[str, ...]


class Foreign(NamedTuple):
    """A question and its answer in a language other than English."""

    language: str
    question: str
    answer: str


def words(text: str) -> tuple[str, ...]:
    """The parts between commas."""
    return tuple(part.strip() for part in text.split(","))


_TOPICS = """
the coast
tide, harbour wall, lighthouse, fishing boat, sand bar, gull, storm, ferry, reef
rises slowly, turns before noon, shelters the boats, wears away, drifts north
the western bay, Kråkevik, the old pier, Saint-Malo, the outer islands
grey, restless, narrow, salt-stained, calm, distant

baking
dough, rye loaf, oven, sourdough starter, crust, brioche, yeast, crème pâtissière
rests overnight, doubles in size, browns evenly, needs more water, cools on a rack
the village bakery, a warm kitchen, the Café Émile, the market hall
golden, elastic, sour, light, dense, fragrant

the night sky
comet, double star, planet, nebula, telescope, meteor shower, eclipse, spiral galaxy
rises after midnight, fades in a week, reflects the sun, moves westward, brightens
the southern sky, the observatory, the Ångström ridge, the constellation Lyra
faint, brilliant, reddish, slow, periodic, unusually bright

gardens
apple tree, compost heap, bean row, bumblebee, rose hedge, greenhouse, clay soil
flowers in May, needs little water, attracts bees, recovers after frost, spreads
the walled garden, the north border, the allotment, the château park
sunny, wild, sheltered, overgrown, fertile, dry

programs
parser, cache, sorting function, test suite, memory leak, hash table, event loop
returns an empty list, fails on large input, runs in linear time, needs a lock
the main module, a worker thread, the standard library, production
recursive, fast, fragile, well tested, immutable, surprisingly short

music
violin, chorus, slow movement, drum pattern, melody, nocturne, accordion, rehearsal
begins in a minor key, repeats the theme, fades out, surprises the audience
the concert hall, Dvořák's study, a small club in Łódź, the conservatory
quiet, joyful, syncopated, solemn, bright, unfinished

railways
night train, signal box, timetable, bridge, freight wagon, tunnel, station clock
leaves on time, crosses the valley, waits for the express, opened in 1894
the border station, Zürich, the mountain line, platform nine
punctual, rusty, electric, crowded, scenic, steep

history
chronicle, treaty, merchant, town charter, census, guild, manuscript, trade route
survives in two copies, was signed in spring, lost its privileges, grew rapidly
the old quarter, Kraków, the royal archive, the province of Åland
medieval, disputed, wealthy, short-lived, forgotten, influential
"""
_FOREIGN = """
French | Où se trouve la gare ? | La gare est près de la rivière, à gauche du marché.
French | Pourquoi le ciel est-il bleu ? | Parce que l'air diffuse surtout la lumière bleue.
German | Wie spät ist es? | Es ist kurz nach zwölf, der Zug fährt in fünf Minuten.
German | Was kocht man im Winter? | Zum Beispiel Grünkohl, Klöße oder eine Suppe.
Spanish | ¿Qué hacemos mañana? | Mañana visitamos el jardín y después comemos en la plaza.
Polish | Gdzie jest biblioteka? | Biblioteka jest obok ratusza, za małym mostem.
Chinese | 今天天气怎么样？ | 今天是晴天，下午有一点风，适合出去散步。
Chinese | 怎么泡绿茶？ | 水温大约八十度，泡两三分钟就可以了。
Japanese | 駅はどこですか。 | 駅は橋の向こうにあります。歩いて五分です。
Russian | Когда цветёт яблоня? | Яблоня цветёт в мае, если весна тёплая.
Arabic | أين المكتبة؟ | المكتبة قريبة من السوق، خلف المدرسة.
"""


def _topic(block: str) -> Topic:
    name, *lists = block.splitlines()
    return Topic(name, *map(words, lists))


TOPICS = tuple(map(_topic, _TOPICS.strip().split("\n\n")))
FOREIGN = tuple(Foreign(*line.split(" | ")) for line in _FOREIGN.strip().splitlines())
PEOPLE = words("Ida, Tomás, Noor, Zoë, Jürgen, Aiko, Priya, Søren, Łukasz, Marie, Amara, José, Wei")
EMOJI = ("🙂", "🌊", "🍞", "✨", "🚂", "👩‍🚀", "🎻", "🌱")

OPENINGS = words("As a rule, In most years, At first, Later, After the rain, Not far away, Still")
QUESTIONS = (
    "What should I know about the {thing} in {place}?",
    "Why is the {thing} so {quality}?",
    "Can you explain how a {quality} {thing} differs from a {other}?",
    "Tell me about the {thing} near {place}, please.",
    "Give me two facts about {topic}: one about the {thing}, one about the {other}.",
    "Is it true that the {thing} {deed}?",
    "How would you describe the {thing} to a child?",
)
SENTENCES = (
    "The {quality} {thing} {deed}.",
    "{opening} the {thing} {deed}, while the {other} stays {quality}.",
    "Near {place}, the {thing} {deed}.",
    "{person} says that the {thing} {deed} because the {other} is {quality}.",
    "There are {count} kinds of {thing}, and each one {deed}.",
    "In {place} people remember a {quality} {thing} and a {other}.",
    "Without the {other}, the {thing} would not be {quality}.",
)
