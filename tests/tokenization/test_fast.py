"""The fast encoder: places, control text, threads, and a cache of words that it drops."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from corpora import EOS, texts, tokenizer_bytes
from tokenizer_kinds import (
    specials_before_ordinary,
    tokenizer_json,
    with_runs_of_spaces,
    word_end_tokenizer,
)
from tokenizers import pre_tokenizers

from pipeline_lib.tokenization import fast as fast_module
from pipeline_lib.tokenization.equality import compare
from pipeline_lib.tokenization.fast import FastEncoder
from pipeline_lib.tokenization.reference import ReferenceEncoder, open_reference


def test_a_text_with_letters_that_only_one_library_knows_keeps_its_place() -> None:
    data = word_end_tokenizer(pre_tokenizers.ByteLevel(add_prefix_space=False))
    reference, fast = ReferenceEncoder(data), FastEncoder(data)
    found = [b"", b"the stone", " the\U00032532of".encode(), b"", b"of", "A\ua7cea".encode()]
    right, given = reference.encode(found), fast.encode(found)
    assert given.ids.tolist() == right.ids.tolist()
    assert given.offsets.tolist() == right.offsets.tolist()


def test_no_texts_give_no_ids() -> None:
    for encoder in (ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())):
        ids, offsets = encoder.encode([])
        assert len(ids) == 0 and offsets.tolist() == [0]
        assert (ids.dtype, offsets.dtype) == (np.uint32, np.int64)


def test_empty_texts_keep_their_place() -> None:
    for encoder in (ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())):
        offsets = encoder.encode([b"", b"the", b""]).offsets.tolist()
        assert offsets[:2] == [0, 0] and offsets[2] == offsets[3] > 0


def test_the_text_of_a_special_token_is_encoded_as_text() -> None:
    for encoder in (ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())):
        ids = encoder.encode([EOS.encode()]).ids.tolist()
        assert len(ids) > 1 and open_reference(tokenizer_bytes()).token_to_id(EOS) not in ids


def test_ordinary_added_tokens_keep_their_meaning() -> None:
    data = tokenizer_json(with_runs_of_spaces)
    run = open_reference(data).token_to_id(" " * 12)
    for encoder in (ReferenceEncoder(data), FastEncoder(data)):
        assert run in encoder.encode([b"x" + b" " * 12 + b"y"]).ids.tolist()


def test_callers_in_several_threads_get_their_own_ids_while_the_engine_is_renewed() -> None:
    data = tokenizer_bytes()
    fast = FastEncoder(data, renew_bytes=3_000)
    parts = [[text.encode() for text in texts(40, first=40 * part)] for part in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fast.encode, parts))
    reference = ReferenceEncoder(data)
    for part, encoded in zip(parts, found, strict=True):
        right = reference.encode(part)
        assert np.array_equal(encoded.ids, right.ids)
        assert np.array_equal(encoded.offsets, right.offsets)


def test_renewing_the_engine_changes_no_id() -> None:
    fast = FastEncoder(tokenizer_bytes(), renew_bytes=50)
    reference = ReferenceEncoder(tokenizer_bytes())
    for text in texts(20):
        compare(reference, fast, [text.encode()])


def test_forgetting_on_demand_renews_the_engine_once_it_has_seen_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fast_module, "DROP_CACHE_BYTES", 30)
    fast, reference = FastEncoder(tokenizer_bytes()), ReferenceEncoder(tokenizer_bytes())
    engines = []
    for text in (b"few", b"more than thirty bytes of text", b"again few"):
        compare(reference, fast, [text])
        engines.append(fast._engine)
        fast.drop_cache()
        reference.drop_cache()
    compare(reference, fast, [b"and after it"])
    assert engines[0] is engines[1] is not engines[2] is fast._engine


def test_a_normalised_file_loses_its_special_tokens_without_a_second_parse() -> None:
    for data in (tokenizer_json(specials_before_ordinary), tokenizer_json(with_runs_of_spaces)):
        fields = {**json.loads(data), "post_processor": None}
        for text in (json.dumps(fields), json.dumps(fields, separators=(",", ":"))):
            found = json.loads(fast_module._without_special_tokens(text))
            kept = [token for token in fields["added_tokens"] if not token["special"]]
            assert found == {**fields, "added_tokens": kept} and kept
