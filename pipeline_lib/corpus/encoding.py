"""The two stages between visited rows and shard files: encode a batch, and write it.

Reading and hashing run in one thread, encoding in the number of threads that suits the encoder,
writing in the thread of the caller. Each stage hands batches on in order, so the overlap changes
nothing but the time.
"""

from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus.batches import DocumentBatch
from pipeline_lib.corpus.rejects import EncodedBatch, sort_out
from pipeline_lib.corpus.shard_cutter import ShardCutter
from pipeline_lib.corpus.state import EncoderUsed
from pipeline_lib.engines import Closable, in_threads
from pipeline_lib.errors import EncoderMismatch, TokenizerError
from pipeline_lib.selection import Split
from pipeline_lib.storage import atomic
from pipeline_lib.tokenization import equality
from pipeline_lib.tokenization.reference import Encoded, Encoder
from pipeline_lib.tokenization.refusals import Answer, encode_each
from pipeline_lib.tokenization.tokenizer import Tokenizer

_DECODED_FIRST = 32
"""Documents of a lane's first batch that are decoded again, to see whether text is lost."""
_HELD_AT_MOST = 12
"""Batches that are encoded and held back while the first one is compared with the reference."""


class EncodingStage:
    """Encodes batches, with an encoder that it chooses on the first batch and goes on checking.

    ``before``: the encoders of earlier sessions, in order. ``used``: the encoder of this session,
    None until it is confirmed. A document that the fast encoder got wrong is kept as ``evidence``;
    while that file is there, nobody goes on with the run. None keeps nothing.
    """

    def __init__(self, tokenizer: Tokenizer, kind: str, evidence: Path | None) -> None:
        self._tokenizer, self._kind, self._evidence = tokenizer, kind, evidence
        self.used: EncoderUsed | None = None
        self.before: list[EncoderUsed] = []

    @property
    def encoders(self) -> list[EncoderUsed]:
        """All encoders that took part, in order; one that goes on is named once."""
        is_another = self.used is not None and self.used not in self.before[-1:]
        return [*self.before, self.used] if self.used and is_another else list(self.before)

    def run(self, batches: Closable[DocumentBatch]) -> Generator[EncodedBatch, None, None]:
        """The batches with their ids, in order.

        ``EncoderMismatch`` if the encoder gives other ids than the reference for a document, which
        is then kept as evidence.
        """
        reference = self._tokenizer.reference
        with closing(batches):
            chosen = equality.choose_encoder(reference, self._kind)  # while the first is made
            self._encoder: Encoder = chosen
            with closing(in_threads(self._encode, batches, chosen.threads)) as coded:
                held = self._confirm(coded)
                self.used = EncoderUsed(name=self._encoder.name, version=self._encoder.version)
                for batch, answer, by in chain(_emptied(held), coded):
                    if by is not self._encoder:  # the one that was not confirmed
                        answer = encode_each(self._encoder, batch.texts)
                    found = self._sorted_out(batch, answer)
                    if by is self._encoder and by is not reference:
                        self._check_rejected(found)
                        self.probe(found.batch, found.encoded)
                    yield found

    def drop_cache(self) -> None:
        """Free the memory in which the encoder remembers words; only after the first batch."""
        self._encoder.drop_cache()

    def _encode(self, batch: DocumentBatch) -> "_Coded":
        encoder = self._encoder
        return _Coded(batch, encode_each(encoder, batch.texts), encoder)

    def _sorted_out(self, batch: DocumentBatch, answer: Answer) -> EncodedBatch:
        """The documents that have ids; all or some of them are decoded again, to count losses."""
        found = sort_out(batch, answer.encoded, answer.refused, self._tokenizer.eos_id)
        count = len(found.batch.texts)
        first = range(0 if batch.first_row else min(_DECODED_FIRST, count))
        everything = self._tokenizer.losses.in_silence
        some = (n for n in {*found.batch.probes, *first} if _is_short(found.batch.texts[n]))
        chosen = list(range(count) if everything else some)
        lost = [index for index in chosen if self._is_lost(found, index)]
        return found._replace(compared=len(chosen), lost=len(lost))

    def _check_rejected(self, found: EncodedBatch) -> None:
        """``EncoderMismatch`` unless the reference rejects the same, for the same reasons."""
        for one in found.rejected:
            right = encode_each(self._tokenizer.reference, [one.text])
            same = sort_out(found.batch.alone(one.text), *right, self._tokenizer.eos_id).rejected
            if [other.reason for other in same] != [one.reason]:
                error = EncoderMismatch(f"only the fast encoder has {one.text[:60]!r} {one.reason}")
                self._poison(error, one.text)

    def _is_lost(self, found: EncodedBatch, index: int) -> bool:
        ids, offsets = found.encoded
        part = ids[offsets[index] : offsets[index + 1]].tolist()
        return self._tokenizer.loses(found.batch.texts[index], part)

    def _confirm(self, coded: Iterator["_Coded"]) -> list["_Coded"]:
        """Settle which encoder is used; returns the first batches.

        While the ids of the first batch are compared with the reference, the next ones are encoded
        and held back.
        """
        held = list(islice(coded, 1))
        if not held:
            return held
        first, chosen, reference = held[0], self._encoder, self._tokenizer.reference
        kind = "gigatoken" if self._was_fast() else self._kind  # no way back from what is written
        with ThreadPoolExecutor(1) as pool:
            proof = pool.submit(
                equality.confirm, reference, chosen, kind, first.batch.texts, first.answer.encoded
            )
            while not proof.done() and len(held) < _HELD_AT_MOST and (more := next(coded, None)):
                held.append(more)
            try:
                self._encoder = proof.result()
            except EncoderMismatch as error:
                if self._was_fast():
                    self._poison(error, str(error).encode())
                raise
        return held

    def _was_fast(self) -> bool:
        return any(used["name"] != self._tokenizer.reference.name for used in self.before)

    def probe(self, batch: DocumentBatch, encoded: Encoded) -> None:
        """Compare the picked documents with the reference; ``EncoderMismatch`` names one."""
        for index in batch.probes:
            try:
                equality.check(self._tokenizer.reference, batch.texts, encoded, index)
            except EncoderMismatch as error:
                self._poison(error, batch.texts[index])

    def _poison(self, error: EncoderMismatch, evidence: bytes) -> NoReturn:
        if self._evidence is None:
            raise error
        atomic.replace_bytes(self._evidence, evidence)
        raise EncoderMismatch(
            f"{error}. Documents that are written may have wrong ids, so nothing goes on in "
            f"{self._evidence.parent}; the evidence is {self._evidence.name} there. Remove the "
            "staging folder and run again with --encoder tokenizers"
        ) from error


def _is_short(text: bytes) -> bool:
    return len(text) <= equality.PROBE_BYTES


class _Coded(NamedTuple):
    """A batch, its ids, and the encoder that made them."""

    batch: DocumentBatch
    answer: Answer
    by: Encoder


def _emptied(held: list[_Coded]) -> Iterator[_Coded]:
    """The items of a list, each taken out of it, so that the list keeps none of them alive."""
    held.reverse()
    while held:
        yield held.pop()


class Written(NamedTuple):
    """The result of writing a batch: whether the token bound was crossed in it, how many of its
    documents were left out because they stand behind the one that crossed it, and how many unknown
    tokens were written."""

    crossed: bool
    left_out: int
    unknown: int = 0


def with_end_tokens(
    encoded: Encoded, tokenizer: Tokenizer
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Tokens of all texts, each followed by the end token, and the number of tokens of each.

    The tokens have the dtype of the shards. The range of the ids is checked before they are
    narrowed, because numpy wraps silently. ``TokenizerError`` for an id that is out of range.
    """
    ids, offsets = encoded
    _check_ids(ids, tokenizer)
    narrow = ids.astype(tokenizer.dtype).data.cast("B")
    end = np.array([tokenizer.eos_id], tokenizer.dtype).tobytes()
    borders = (offsets * tokenizer.dtype.itemsize).tolist()
    texts = [narrow[start:stop] for start, stop in pairwise(borders)]
    joined = end.join([*texts, b""])  # three times as fast as a masked assignment
    return np.frombuffer(joined, tokenizer.dtype), np.diff(offsets) + 1


def _check_ids(ids: NDArray[np.uint32], tokenizer: Tokenizer) -> None:
    largest = int(ids.max(initial=0))
    if largest >= tokenizer.vocab_bound:
        raise TokenizerError(
            f"the encoder gave id {largest}, but ids end at {tokenizer.vocab_bound - 1}; "
            "run again with --encoder tokenizers"
        )


def write_token_batch(
    writers: Mapping[Split, ShardCutter[Any]],
    batch: DocumentBatch,
    encoded: Encoded,
    tokenizer: Tokenizer,
    train_tokens: int | None,
) -> Written:
    """Append a batch to both splits, up to and including the document that crosses the bound.

    ``train_tokens`` bounds the tokens of the training split in this lane; None means no bound.
    """
    tokens, lengths = with_end_tokens(encoded, tokenizer)
    kept_train, kept_val = batch.train, len(batch.texts) - batch.train
    crossed = False
    if train_tokens is not None:
        totals = writers["train"].tokens + np.cumsum(lengths[: batch.train])
        crossing = int(np.searchsorted(totals, train_tokens))
        if crossing < batch.train:
            crossed, kept_train = True, crossing + 1
            val_positions = batch.positions[batch.train :]
            kept_val = int(np.searchsorted(val_positions, batch.positions[crossing]))
    border = int(lengths[: batch.train].sum())
    rows = batch.first_row + batch.positions
    parts: tuple[tuple[Split, NDArray[Any], slice], ...] = (
        ("train", tokens[:border], slice(kept_train)),
        ("val", tokens[border:], slice(batch.train, batch.train + kept_val)),
    )
    unknown = 0
    for split, found, kept in parts:
        written = found[: int(lengths[kept].sum())]
        writers[split].append(written, lengths[kept], rows[kept])
        unknown += _unknown(written, tokenizer)
    return Written(crossed, len(batch.texts) - kept_train - kept_val, unknown)


def _unknown(tokens: NDArray[Any], tokenizer: Tokenizer) -> int:
    """Unknown tokens among the tokens of documents, whose own text has no end token."""
    unknown = tokenizer.losses.unknown_id
    if unknown is None or unknown == tokenizer.eos_id:
        return 0
    return int((tokens == unknown).sum())
