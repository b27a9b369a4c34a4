"""A plain loop over ``tokenizers``: batches of 1,024 texts, all threads, ids appended to a file."""

from itertools import islice

import numpy as np
from given import files, given, texts
from tokenizers import Tokenizer

options = given()
tokenizer = Tokenizer.from_file(str(options.tokenizer / "tokenizer.json"))
tokenizer.encode_special_tokens = True
end = [tokenizer.token_to_id("<|endoftext|>")]
options.output.mkdir(parents=True)
with (options.output / "train.bin").open("wb") as out:
    for path in files(options.corpus):
        source = texts(path, options.column)
        while batch := list(islice(source, 1_024)):
            for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                out.write(np.array(encoding.ids + end, "<u2"))
