"""Articles and texts of the sample: long ones, empty ones, repeated ones."""

from itertools import islice

from sample_rows import rows

from pipeline_lib.sampledata.documents import texts
from pipeline_lib.sampledata.prose import Voice


def test_wikipedia_has_very_long_articles_and_empty_ones() -> None:
    sizes = [len(row["text"].encode()) for row in rows("wikipedia")]
    assert max(sizes) > 3 * 4096 and min(sizes) == 0


def test_texts_are_null_blank_repeated_marked_and_very_long() -> None:
    found = list(islice(texts(Voice(1, 2)), 3_000))
    kept = [text for text in found if text and text.strip()]
    assert None in found and "" in found and any(t and not t.strip() for t in found)
    assert len(set(kept)) < len(kept)
    assert any(text.startswith("<|endoftext|> ") for text in kept)
    assert max(map(len, kept)) > 10_000
