"""One corpus and one tokenizer with fixed bytes, which no installed library can change."""

import base64
import json
from pathlib import Path

from corpora import EOS, tokenizer_file
from tokenizers import pre_tokenizers

PARQUET = base64.b85decode(
    "P(e~L6#x~c85P(FEEOsh02Kxm1{?qY04TLD{a{lC6%haePAw^LPdap5RSUJi7)>L{K;tk%o6@^e5kyAgXSpW!r-|"
    "%0)6~q)MFUU@rctQ{@~lpyQcFoFmO@QR#qob(AMbx?9gTM_L;nBl^_c%(b^-rGR`LE5Ht{C^zlisLvX9vRIqQhc%"
    "KszFkn=ycS0-Dui~o{UNS^$^vI&Jz&JGj1`#;#%8r)jjObyeUb{N-|-YC>&Y>myFvThs9{!<o#MaE)AGpQWZG^cX"
    "@KL8A!z<)u2(5NBLC}@%tcE%ut7{u7o10c$%lI$#jf~*8U_A6_?odmm%`GOU3&O){#1n}F*!F@h#V7*oRE{7rsJ$"
    "Msr-54%I>>E=#HcL$dd#Dj3E-QeLcV93auY_c_Fp}5uW&Ob_Y|q{G^hkD+KdHl+%xK>OYUV69=8~wW4q?w|N`V3#"
    "c*(D+%{(gZq;9Q7NR6QO3y0!iX@^-DM?s}TC@tKAWoaB*6rEB^W#`BE=_<EVV$z0r0=B?v0<V>v_%~(rp>4)_H-W"
    "8XiJ*S0IYE<07HP(P1!T>KVca;9_zsYcx#5CgwolZd0Q)f**5>tkRwcG?!|rp^i8nYd4dDv%L&ppA7HS1wlkYo@m"
    "B#<*F;z4xeXDeE(k;wk5b+2Be{gpBboGM#`6vbqEkyE`RyyxcuG=cZ*e)o~@zx7KN*!?s+Pox2Z$_5@`d{Z#SA+*"
    "!8QG7eta_+V4berl(B}lD3KawyEHwZa26JO*Wo=;<0ss{ZB?1@(bY*ySB>+qu0000MDj6IZ93}u96$}|A1^^it1a"
    "xJ1bQKI1Di+Wg7J>;T2uU0j02Kfg0suS~_7@oj872ZK0000M&>0pgCI}XS2>>V{aA9(Bb!BudV{mXSVRCYBcOZ6U"
    "a&u{KZXhx?E-)@J85|q{004~u002-yQZW"
)
"""21 rows of text, one of them null and one empty."""


def tokenizer_json() -> bytes:
    """A byte-level BPE of 256 byte symbols, two merges and the end token."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [["t", "h"], ["th", "e"]]
    vocabulary = [*symbols, "th", "the", EOS]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    added = {"id": 258, "content": EOS, "special": True, "single_word": False}
    added |= {"lstrip": False, "rstrip": False, "normalized": False}
    fields = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added],
        "normalizer": None,
        "pre_tokenizer": {**level, "use_regex": True},
        "post_processor": None,
        "decoder": {**level, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(vocabulary)},
            "merges": merges,
        },
    }
    return json.dumps(fields).encode()


def write_world(folder: Path) -> None:
    """Write the corpus and the tokenizer to the folders in which ``small_recipe`` expects them."""
    (folder / "corpus").mkdir()
    (folder / "corpus" / "part-0.parquet").write_bytes(PARQUET)
    tokenizer_file(folder / "tokenizer", tokenizer_json())
