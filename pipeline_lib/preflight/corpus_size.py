"""The size of the corpus of the shards; a token bound limits the files that are read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.sizes import Size, to_fetch
from pipeline_lib.errors import PipelineError
from pipeline_lib.hub import client
from pipeline_lib.hub.footers import remote_footer
from pipeline_lib.machine import folder_bytes
from pipeline_lib.preflight.amounts import SizingParameters, shuffled
from pipeline_lib.preflight.ratios import bytes_per_token
from pipeline_lib.sampledata.corpus_files import CORPUS
from pipeline_lib.sampledata.sizes import CORPUS_TEXT_KILOBYTES, size_of_sample
from pipeline_lib.shuffling import file_order
from pipeline_lib.sources.hub_files import FOOTERS_ASKED


def sample_corpus(data_dir: Path) -> Size:
    """The size of the sample's corpus, on disk or not made yet."""
    size = replace(size_of_sample(CORPUS), text=CORPUS_TEXT_KILOBYTES * 1000)
    held = folder_bytes(data_dir / CORPUS)
    return replace(size, saved=held, note="on disk", present=True) if held else size


def hub_corpus(parameters: SizingParameters, options: FetchOptions) -> Size:
    """The size of the files that a run reads, by their footers; no copy of them is saved."""
    dataset, config = parameters.corpus or ("", None)
    try:
        listing = client.resolve_revision(dataset, retries=options.retries)
        names = file_order(client.train_files(listing, config), options.seed)
        return _size_read(listing, names, parameters, options)
    except PipelineError as error:
        return Size(CORPUS, None, None, None, " ".join(str(error).split()))


def _size_read(
    listing: client.RepoListing,
    names: Sequence[str],
    parameters: SizingParameters,
    options: FetchOptions,
) -> Size:
    """Files count in their order, until their text gives the tokens and fills the shuffle buffer.

    After ``FOOTERS_ASKED`` footers the other files are taken to be like those.
    """
    text = documents = 0
    note = f"of {listing.repo}, from parquet footers"
    for number, name in enumerate(names[:FOOTERS_ASKED], 1):
        footer = remote_footer(listing, name, retries=options.retries)
        documents += footer.rows
        text += footer.leaves.get(Recipe.text_column, 0)
        if _is_enough(text, documents, parameters):
            return Size(CORPUS, documents, to_fetch(listing, names[:number]), 0, note, text=text)
    more = len(names) / max(min(len(names), FOOTERS_ASKED), 1)
    network = to_fetch(listing, names)
    return Size(CORPUS, int(documents * more), network, 0, note, text=int(text * more))


def _is_enough(text: int, documents: int, parameters: SizingParameters) -> bool:
    if parameters.train_tokens is None:
        return False
    tokens = parameters.train_tokens / (1 - parameters.val_fraction)
    wanted = int(tokens * bytes_per_token(parameters.vocab_size))
    return text >= wanted + shuffled(text, documents)
