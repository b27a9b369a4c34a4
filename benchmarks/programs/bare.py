"""The least that can be done: read the parquet files, encode with gigatoken, write the ids.

No shuffle, no split, no end tokens, no digests, no shards, nothing durable.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from gigatoken.gigatoken_rs import load_hf_json
from given import files, given

options = given()
engine = load_hf_json((options.tokenizer / "tokenizer.json").read_text())
options.output.mkdir(parents=True)
with (options.output / "ids.bin").open("wb") as out:
    for path in files(options.corpus):
        for batch in pq.ParquetFile(path).iter_batches(1_024, columns=[options.column]):
            texts = batch.column(0).cast(pa.binary()).to_pylist()
            ids = np.asarray(engine.encode_batch(texts).layout.content.data)
            out.write(ids.astype("<u2"))
