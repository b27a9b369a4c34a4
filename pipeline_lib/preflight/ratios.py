"""Rules of thumb for sizes, with measured figures. Pure.

Only predictions depend on them, never the bytes that a run writes.
"""

import math

TEXT_SHARE = 0.6  # of a saved copy is read by its normalizer: 0.61 over the offline sample
STORED_SHARE = 0.9  # of the read text is stored: 0.8 over the sample, 1.0 for plain turns
TREE_SHARE = 0.35  # the same for trees, of which one path is kept: 0.33 in the sample
MESSAGES_A_TREE = 7  # 6 in the sample, 9 in the real oasst2
FIRST_BYTES, BYTES_MORE = 2.05, 0.3
"""UTF-8 bytes in a token at 1,024 ids, and more for each doubling. Byte-level BPE on 277 MB of
documentation and code, from 1,024 to 65,536 ids: 2.05 2.38 2.72 3.04 3.32 3.55 3.71."""
MADE_BYTES, MADE_MORE = 3.7, 1.1
"""The same of the offline sample, whose sentences are put together from few: 2.19 at 400 ids, 4.82
at 2,048."""


def bytes_per_token(vocab_size: int, *, sample: bool = False) -> float:
    """UTF-8 bytes of real text in one token, or of the offline sample; at least 1."""
    first, more = (MADE_BYTES, MADE_MORE) if sample else (FIRST_BYTES, BYTES_MORE)
    return max(first + more * math.log2(max(vocab_size, 1) / 1024), 1.0)
