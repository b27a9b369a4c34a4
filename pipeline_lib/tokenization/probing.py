"""An encoder that is compared with the reference while it works, without end."""

import zlib
from collections.abc import Sequence

from pipeline_lib.tokenization import equality
from pipeline_lib.tokenization.reference import Encoded, Encoder, ReferenceEncoder

PROBED = 4_096
"""One text of so many is compared, picked by its content."""


class ProbedEncoder:
    """``chosen``, checked on the first texts it gets and on some of all later ones.

    ``encode`` raises ``EncoderMismatch`` if one differs: ids that were given before can not be
    trusted then, so the caller has to begin again with the reference.
    """

    def __init__(self, reference: ReferenceEncoder, chosen: Encoder) -> None:
        self._reference, self._encoder = reference, chosen
        self._confirmed = chosen is reference
        self.name, self.version, self.threads = chosen.name, chosen.version, chosen.threads

    def encode(self, texts: Sequence[bytes]) -> Encoded:
        """Ids of the texts, in order."""
        encoded = self._encoder.encode(texts)
        if not self._confirmed and texts:
            equality.confirm(self._reference, self._encoder, "gigatoken", texts, encoded)
            self._confirmed = True
        if self._encoder is not self._reference:
            for index in (n for n, text in enumerate(texts) if _is_probe(text)):
                equality.check(self._reference, texts, encoded, index)
        return encoded

    def drop_cache(self) -> None:
        """Free the cache of earlier texts if it is large."""
        self._encoder.drop_cache()


def _is_probe(text: bytes) -> bool:
    return len(text) <= equality.PROBE_BYTES and not zlib.crc32(text) % PROBED
