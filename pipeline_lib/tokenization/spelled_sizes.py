"""How many bytes of text each token of a byte-level vocabulary spells."""

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import BPE

from pipeline_lib.tokenization.byte_symbols import spelled_size
from pipeline_lib.tokenization.reference import ReferenceEncoder

_NOT_ASKED = -1


class SpelledSizes:
    """Bytes by id, asked of the reference when an id is first met; 0 in other vocabularies.

    ``bound``: the largest id + 1.
    """

    def __init__(self, reference: ReferenceEncoder, bound: int) -> None:
        self._name = reference.tokenizer.id_to_token
        model = reference.tokenizer.model
        by_bytes = isinstance(model, BPE) and not model.byte_fallback
        self._sizes = np.full(bound, _NOT_ASKED if by_bytes else 0, np.int64)

    def of(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The bytes of each id (int64)."""
        sizes = self._sizes[ids]
        new = ids[sizes == _NOT_ASKED]
        if not len(new):
            return sizes
        for number in np.unique(new).tolist():
            self._sizes[number] = spelled_size(self._name(number) or "")
        return self._sizes[ids]
