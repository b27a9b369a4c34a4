"""Train a byte-level BPE of ``ids`` ids on the first ``bytes`` of a corpus, by one ``trainer``.

Prints JSON with the seconds.
"""

import json
import time

from given import arguments, first_texts
from internals import CONTROL_TOKENS, cut_runs, train_bpe, train_reference

given = arguments()
texts = list(first_texts(given.corpus, given.column, given.bytes))
if given.trainer == "ours":
    started = time.perf_counter()
    made = train_bpe(texts, given.ids).json
else:
    pieces = [piece.encode() for text in texts for piece in cut_runs(text)]
    started = time.perf_counter()
    made = train_reference(pieces, given.ids, CONTROL_TOKENS)
seconds = time.perf_counter() - started
given.output.mkdir(parents=True, exist_ok=True)
(given.output / "tokenizer.json").write_bytes(made)
print(json.dumps({"seconds": seconds}))
