"""How big the corpus of the shards is, and how much of it a run with a token bound fetches."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.sizes import Size, size_of_sample, to_fetch
from pipeline_lib.errors import PipelineError
from pipeline_lib.hub import client
from pipeline_lib.hub.footers import remote_footer
from pipeline_lib.machine import folder_bytes
from pipeline_lib.preflight.amounts import CorpusSize, SizingParameters
from pipeline_lib.preflight.ratios import bytes_per_token
from pipeline_lib.sampledata import make
from pipeline_lib.shuffling import file_order
from pipeline_lib.sources.resolve import FOOTERS_ASKED


def sample_corpus(data_dir: Path) -> Size:
    """The size of the sample's corpus, on disk or not made yet."""
    folder = data_dir / make.CORPUS
    size = replace(size_of_sample(make.CORPUS), text=make.CORPUS_TEXT_KILOBYTES * 1000)
    held = folder_bytes(folder)
    return replace(size, saved=held, note="on disk", present=True) if held else size


def hub_corpus(run: SizingParameters, options: FetchOptions) -> Size:
    """The files of the corpus that a run reads, by their footers; nothing is saved of it."""
    dataset, config = run.corpus or ("", None)
    try:
        listing = client.resolve_revision(dataset, on_wait=options.on_wait, retries=options.retries)
        names = file_order(client.train_files(listing, config), options.seed)
        read = _read(listing, names, run, options)
    except PipelineError as error:
        return Size(make.CORPUS, None, None, None, " ".join(str(error).split()))
    network = to_fetch(listing, read.names)
    note = f"of {dataset}, from parquet footers"
    return Size(make.CORPUS, read.documents, network, 0, note, text=read.text)


class _Read(NamedTuple):
    names: Sequence[str]
    documents: int
    text: int


def _read(
    listing: client.RepoListing, names: Sequence[str], run: SizingParameters, options: FetchOptions
) -> _Read:
    """Files in their order until their text gives the tokens and fills the shuffle buffer."""
    text = documents = 0
    for number, name in enumerate(names[:FOOTERS_ASKED], 1):
        footer = remote_footer(listing, name, on_wait=options.on_wait, retries=options.retries)
        documents += footer.rows
        text += footer.leaves.get(Recipe.text_column, 0)
        if run.train_tokens is not None and text >= _wanted(CorpusSize(text, documents), run):
            return _Read(names[:number], documents, text)
    more = len(names) / max(min(len(names), FOOTERS_ASKED), 1)
    return _Read(names, int(documents * more), int(text * more))


def _wanted(corpus: CorpusSize, run: SizingParameters) -> int:
    tokens = (run.train_tokens or 0) / (1 - run.val_fraction)
    return int(tokens * bytes_per_token(run.vocab_size)) + corpus.shuffled
