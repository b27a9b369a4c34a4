"""Documents of the offline sample: articles of an encyclopedia, and the texts of the corpus."""

from collections.abc import Iterator

from pipeline_lib.records import DataRow
from pipeline_lib.sampledata.prose import Voice
from pipeline_lib.sampledata.words import FOREIGN

_AGAIN = "The ferry leaves at nine.\n"


def wikipedia(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Articles as plain text, ordered by page number; a few stubs and some very long lists."""
    for number in range(rows):
        topic = voice.topic()
        title = f"{voice.pick(topic.qualities).capitalize()} {voice.pick(topic.things)}"
        text = voice.article(topic, title)
        if number % 97 == 5:
            text = "\n\n".join(voice.article(topic, title) for _ in range(30))
        elif voice.one_in(25):
            text = voice.pick((f"{title} may refer to:", "", f"{title} (\u00a0) is a cafe\u0301."))
        url = f"https://example.org/wiki/{title.replace(' ', '_')}"
        yield {"id": str(12 + 3 * number), "url": url, "title": title, "text": text}


def texts(voice: Voice) -> Iterator[str | None]:
    """Documents without end; some are null, blank, repeated, foreign or very long."""
    while True:
        topic = voice.topic()
        text: str | None = "\n\n".join(voice.paragraph(topic) for _ in range(voice.between(1, 6)))
        if voice.one_in(12):
            _, question, answer = voice.pick(FOREIGN)
            text = f"{question}\n{answer}"
        elif voice.one_in(20):
            text = voice.pick((None, "", "  \n\t", _AGAIN, _AGAIN, f"<|endoftext|> {text}"))
        elif voice.one_in(200):
            text = "\n\n".join(voice.paragraph(topic, 4, 8) for _ in range(60))
        yield text
