"""What the list admits, both encoders encode alike; what is known to differ is not on the list."""

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from corpora import EOS
from fuzz_texts import FuzzTexts
from tokenizer_kinds import gpt2, tokenizer_json
from tokenizers import Tokenizer

from pipeline_lib.errors import EncoderMismatch
from pipeline_lib.tokenization.admission import SPLITS, admission
from pipeline_lib.tokenization.equality import choose_encoder, own_texts
from pipeline_lib.tokenization.fast import TESTED, FastEncoder
from pipeline_lib.tokenization.reference import ReferenceEncoder

File = dict[str, Any]
Change = Callable[[File], object]
TEXTS, LONG = 2_000, 1_000_000
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
NFC = {"type": "NFC"}
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]|\s+(?!\S)|\s+"
)
POSSESSIVE = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s+"
)


@functools.cache
def _gpt2() -> str:
    return tokenizer_json(gpt2).decode()


def changed(*changes: Change) -> bytes:
    file = json.loads(_gpt2())
    for change in changes:
        change(file)
    return json.dumps(file).encode()


def top(**values: Any) -> Change:
    return lambda file: file.update(values)


def model(**values: Any) -> Change:
    return lambda file: file["model"].update(values)


def split_by(*patterns: str, last: File = LEVEL, **fields: Any) -> Change:
    rest = {"behavior": "Isolated", "invert": False, **fields}
    splits = [{"type": "Split", "pattern": {"Regex": p}, **rest} for p in patterns]
    return top(pre_tokenizer={"type": "Sequence", "pretokenizers": [*splits, last]})


def added(content: str, **flags: bool) -> Change:
    def add(file: File) -> None:
        number = max(*file["model"]["vocab"].values(), *(t["id"] for t in file["added_tokens"])) + 1
        off = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
        known = file["model"]["vocab"].get(content, number)
        file["added_tokens"].append({"id": known, "content": content, **off, **flags})

    return add


def every_split(file: File) -> None:
    """All pairs that make each token are merges, as in files made from tiktoken's."""
    known, merges = file["model"]["vocab"], []
    for token in sorted(known, key=known.__getitem__):
        cuts = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        pairs = [pair for pair in cuts if known[token] > 256 and set(pair) <= known.keys()]
        merges += sorted(pairs, key=lambda pair: (known[pair[0]], known[pair[1]]))
    file["model"]["merges"] = merges


def ids_out_of_order(file: File) -> None:
    """Ids that do not follow the merges, as in files from fairseq."""
    known = file["model"]["vocab"]
    later = sorted(number for number in known.values() if number > 256)
    turned = dict(zip(later, reversed(later), strict=True))
    file["model"]["vocab"] = {name: turned.get(n, n) for name, n in known.items()}


def raw_in_vocabulary(file: File) -> None:
    file["model"]["vocab"]["語"] = max(file["model"]["vocab"].values()) + 1


def without_byte(file: File) -> None:
    known = file["model"]["vocab"]
    for token in [token for token in known if "č" in token]:
        known["absent" + token.replace("č", "")] = known.pop(token)
    file["model"]["merges"] = [m for m in file["model"]["merges"] if "č" not in "".join(m)]


PLAIN = (added("ion"), added("<tool>"), added("  "), added("     "), added("\n\n\n"))
ON: dict[str, tuple[Change, ...]] = {
    **{f"words of {name}": (split_by(*patterns),) for name, patterns in SPLITS.items()},
    "words of ByteLevel": (),
    "NFC": (top(normalizer=NFC),),
    "NFC in a sequence, ASCII added tokens": (
        top(normalizer={"type": "Sequence", "normalizers": [NFC]}), *PLAIN,
    ),
    "no normalizer in a sequence": (top(normalizer={"type": "Sequence", "normalizers": []}),),
    "ignore_merges": (model(ignore_merges=True),),
    "ignore_merges, every split": (split_by(*SPLITS["llama3"]), every_split,
                                   model(ignore_merges=True)),
    "every split": (every_split,),
    "ids out of order": (ids_out_of_order,),
    "merges as words": (lambda f: model(merges=[" ".join(m) for m in f["model"]["merges"]])(f),),
    "a token that is not spelled in bytes": (raw_in_vocabulary,),
    "unk": (model(unk_token=EOS, fuse_unk=True),),
    "empty affixes": (model(continuing_subword_prefix="", end_of_word_suffix=""),),
    "added tokens": PLAIN,
    "normalized added tokens": (added("ion", normalized=True), added("  ", normalized=True)),
    "both kinds, apart": (added("ion", normalized=True), added("zzz"), added("語")),
    "special tokens of any kind": (
        added("<mask>", special=True, lstrip=True), added("the", special=True, single_word=True),
        added("<b> ", special=True, rstrip=True, normalized=True), added("<tool>"),
    ),
}  # fmt: skip
OFF: dict[str, tuple[Change, ...]] = {
    "single_word": (added("ion", single_word=True),),
    "rstrip": (added("ion", rstrip=True), added("  ")),
    "'ion', which 'ati' can hide": (added("ion"), added("ati", normalized=True)),
    "'endof', which '<|endoftext|>' can hide": (added("endof"),),
    "'>>>', which '<|endoftext|>' can hide": (added(">>>"),),
    "'ion' beside a normalizer": (top(normalizer=NFC), added("ion", normalized=True)),
    "'ế' beside a normalizer": (top(normalizer=NFC), added("ế")),
    f"splits by {(CL100K,)!r}": (split_by(CL100K),),
    f"splits by {(POSSESSIVE,)!r}": (split_by(POSSESSIVE),),
    "behavior 'Removed'": (split_by(*SPLITS["qwen2"], behavior="Removed"),),
    "use_regex True there": (split_by(*SPLITS["qwen2"], last=LEVEL | {"use_regex": True}),),
    "use_regex False there": (top(pre_tokenizer=LEVEL),),
    "type 'Digits'": (
        split_by(*SPLITS["gpt2"]),
        lambda f: f["pre_tokenizer"]["pretokenizers"].insert(
            0, {"type": "Digits", "individual_digits": True}
        ),
    ),
    "no pre-tokenizer": (top(pre_tokenizer=None),),
    "add_prefix_space": (split_by(*SPLITS["qwen2"], last=LEVEL | {"add_prefix_space": True}),),
    "dropout 0.5": (model(dropout=0.5),),
    "end_of_word_suffix": (
        model(end_of_word_suffix="</w>"),
        lambda f: f["model"]["vocab"].update({"t</w>": 9_000}),
    ),
    "without the byte 0x0D": (without_byte,),
    "type 'Lowercase'": (top(normalizer={"type": "Lowercase"}),),
    "ignore_merges and the token '語'": (raw_in_vocabulary, model(ignore_merges=True)),
    "type 'WordLevel'": (
        lambda f: f.update(
            model={"type": "WordLevel", "vocab": f["model"]["vocab"], "unk_token": EOS}
        ),
    ),
}  # fmt: skip


def differences(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Texts that the two encoders encode differently."""
    composes = admission(json.loads(data)).composes
    reference, fast = ReferenceEncoder(data), FastEncoder(data, composes=composes)
    for texts in FuzzTexts(data, seed).batches(count):
        right, given = reference.encode(texts), fast.encode(texts)
        if np.array_equal(right.ids, given.ids) and np.array_equal(right.offsets, given.offsets):
            continue
        for text in texts:
            if not np.array_equal(reference.encode([text]).ids, fast.encode([text]).ids):
                yield text


@pytest.mark.parametrize("changes", ON.values(), ids=list(ON))
def test_what_is_on_the_list_is_encoded_alike(changes: tuple[Change, ...]) -> None:
    data = changed(*changes)
    assert admission(json.loads(data)).obstacle is None
    assert next(differences(data, TEXTS), None) is None


@pytest.mark.long
@pytest.mark.parametrize("changes", ON.values(), ids=list(ON))
def test_what_is_on_the_list_is_encoded_alike_a_million_times(changes: tuple[Change, ...]) -> None:
    assert next(differences(changed(*changes), LONG, seed=1), None) is None


@pytest.mark.parametrize("words", OFF)
def test_what_differs_is_off_the_list_and_named(words: str) -> None:
    data = changed(*OFF[words])
    assert words in str(admission(json.loads(data)).obstacle)
    try:
        assert next(differences(data, TEXTS), None) is not None
    except (ValueError, RuntimeError, EncoderMismatch) as refused:
        assert "nsupported" in str(refused) or "no single-byte" in str(refused)


@pytest.mark.parametrize(
    "flag", ["lstrip", "rstrip", "single_word"]
)  # these alone are off the list even where the texts here show no difference
def test_every_flag_of_an_ordinary_added_token_is_off_the_list(flag: str) -> None:
    found = admission(json.loads(changed(added("ion", **{flag: True}))))
    assert found.obstacle == f"{flag} of the added token 'ion'"


def places(value: Any) -> Iterator[File]:
    """Every object in a file whose keys have a meaning, apart from parts without effect."""
    if isinstance(value, dict):
        yield value
        for name, inner in value.items():
            if name not in ("vocab", "decoder", "post_processor", "pattern"):
                yield from places(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from places(inner)


def test_a_key_or_a_type_that_is_not_known_is_not_admitted_anywhere() -> None:
    sequence = {"type": "Sequence", "normalizers": [NFC]}
    data = changed(split_by(*SPLITS["qwen2"]), top(normalizer=sequence), added("<tool>"))
    assert admission(json.loads(data)).obstacle is None
    count = len([*places(json.loads(data))])
    assert count >= 9
    for name, value in (("novelty", True), ("type", "Novel")):
        for place in range(1 if name == "type" else 0, count):
            file = json.loads(data)
            found = list(places(file))[place]
            if found.get("special"):  # of those nothing is used but their text
                continue
            found[name] = value
            assert admission(file).obstacle is not None, (name, found)


def test_a_tokenizer_that_is_not_admitted_gets_the_reference_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reference = ReferenceEncoder(changed(added("ion", single_word=True)))
    assert choose_encoder(reference) is reference
    assert "slower: the tokenizer has single_word of the added token 'ion'" in caplog.text
    with pytest.raises(EncoderMismatch, match="can not be used here: the tokenizer has single_w"):
        choose_encoder(reference, "gigatoken")


@pytest.mark.parametrize("library", TESTED)
def test_a_library_of_an_untested_version_means_the_reference(
    library: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(TESTED, library, ("0.0.1",))
    reference = ReferenceEncoder(changed())
    assert choose_encoder(reference) is reference
    assert f"{library} " in caplog.text and "tested is 0.0.1" in caplog.text


def test_the_probes_hold_a_tokenizers_own_added_tokens_and_merges() -> None:
    file = json.loads(changed(added("<tool>")))
    texts = own_texts(file)
    left, right = file["model"]["merges"][0]
    assert b"a<tool>a" in texts and (left + right).encode() in texts
    assert len(texts) < 1_000 and max(map(len, texts)) < 1_000


def test_a_file_of_a_current_library_has_only_known_keys() -> None:
    assert admission(json.loads(Tokenizer.from_str(changed().decode()).to_str())).obstacle is None
