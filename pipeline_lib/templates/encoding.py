"""Conversations to token ids and loss masks.

Control ids are inserted by number. Roles and contents are encoded without matching special tokens,
all contents of a batch in one call. Ids and mask are filled at the same positions. So a control
token that a user typed stays text, and the mask can not be off by one. All work per token is numpy.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.errors import TokenizerError
from pipeline_lib.records import LEARN_ALL, LEARN_CONTENT, LEARN_END, ROLES, TurnBatch
from pipeline_lib.templates.chatml import RENDERED_ROLES
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS, IM_END, IM_SEP, IM_START, PAD
from pipeline_lib.tokenization.probing import ProbedEncoder
from pipeline_lib.tokenization.reference import Encoder
from pipeline_lib.tokenization.refusals import NO_TOKENS, NOT_ENCODABLE, encode_each
from pipeline_lib.tokenization.special_marks import with_special_marks
from pipeline_lib.tokenization.tokenizer import Tokenizer

ENCODING_VERSION = 2
"""Increased when ids or masks of any conversation change."""

SPELLS_MARK = "spelling a control token"
TOOLS = "tools, which ChatML does not render"
UNUSABLE = (TOOLS, NOT_ENCODABLE, NO_TOKENS, SPELLS_MARK)
"""Why a turn can not be used: the template has no place for it, the library raises on its content,
nothing of it is left, its own text became a mark of the template."""
RENEW_BYTES, _RENEW_FILES = 32 << 20, 16
_ASSISTANT = ROLES.index("assistant")
_NOT_RENDERED = [n for n, role in enumerate(ROLES) if role not in RENDERED_ROLES]
_LARGEST = 2**31

Ids = NDArray[np.int32]
Mask = NDArray[np.int8]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Template:
    """The ids of the chat template for one tokenizer, and the encoder of contents.

    ``roles``: the ids of each role name, in the order of ``ROLES``; none for a role without a name
    in ChatML.
    """

    start: int
    sep: int
    end: int
    pad: int
    eos: int
    vocab_bound: int
    roles: tuple[Ids, ...]
    encoder: Encoder


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Every special id of a cache, by name; ``TokenizerError`` if the ids are not usable.

    The three marks of a turn must have different ids, and neither padding nor the end of a document
    may share one. Padding and the end of a document may share an id, because masks go by position.
    """
    tokens = {"im_start_id": IM_START, "im_sep_id": IM_SEP, "im_end_id": IM_END}
    ids = {name: tokenizer.token_id(token) for name, token in tokens.items()}
    others = {"pad_id": tokenizer.token_id(PAD), "eos_id": tokenizer.eos_id}
    if len(set(ids.values())) < 3 or set(ids.values()) & set(others.values()):
        raise TokenizerError(
            f"the marks of a turn need ids of their own, found {ids} beside {others}; choose "
            f"another tokenizer, or add {', '.join(CONTROL_TOKENS)} to it as special tokens"
        )
    return ids | others


def renew_bytes(tokenizer: Tokenizer) -> int:
    """Bytes of text after which the encoder drops its cache of words.

    This keeps memory flat, because three caches are built one after another in a process that also
    holds a training framework. It costs some 7 % of the time, also with a large vocabulary, for
    which a new engine takes longer.
    """
    return max(RENEW_BYTES, _RENEW_FILES * len(tokenizer.json))


def template_for(tokenizer: Tokenizer, kind: str = "auto") -> Template:
    """The template of a tokenizer, with the encoder that ``choose_encoder`` picks for ``kind``.

    The encoder raises ``EncoderMismatch`` when a text shows that it is wrong.
    """
    if tokenizer.vocab_bound > _LARGEST:
        raise TokenizerError(
            f"ids up to {tokenizer.vocab_bound:,} do not fit the 32 signed bits of a cache; "
            "choose another tokenizer"
        )
    ids = special_ids(tokenizer)
    marked = with_special_marks(tokenizer)
    chosen = marked.encoder(kind, renew_bytes=renew_bytes(tokenizer))
    encoder = ProbedEncoder(marked.reference, chosen)
    encoded = marked.reference.encode([role.encode() for role in RENDERED_ROLES])
    role_ids = np.split(encoded.ids.astype(np.int32), encoded.offsets[1:-1])
    role_ids += [np.empty(0, np.int32)] * (len(ROLES) - len(role_ids))
    return Template(
        start=ids["im_start_id"],
        sep=ids["im_sep_id"],
        end=ids["im_end_id"],
        pad=ids["pad_id"],
        eos=ids["eos_id"],
        vocab_bound=tokenizer.vocab_bound,
        roles=tuple(role_ids),
        encoder=encoder,
    )


@dataclass(frozen=True)
class TokenTurns:
    """Encoded turns, one after another.

    ``ids`` (int32) and ``mask`` (int8; 1 on an assistant's content and its end mark, as far as they
    are to be learned) are flat.
    ``bounds`` (int64): turn ``t`` has the positions ``bounds[t]:bounds[t + 1]``. ``withheld``
    (int64): the positions that only ``learn`` takes out of the mask. ``unusable``: reason -> the
    turns (their numbers) that can not have ids.
    """

    ids: Ids
    mask: Mask
    bounds: Places
    withheld: Places
    unusable: dict[str, Places] = field(default_factory=dict)


def encode_turns(template: Template, batch: TurnBatch) -> TokenTurns:
    """Ids and loss mask of every turn of a batch."""
    contents, sizes, unusable = _encode(template, batch.contents)
    head = np.array([len(role) + 2 for role in template.roles], np.int64)[batch.roles]
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(head + sizes + 1, out=bounds[1:])
    first, last = bounds[:-1], bounds[1:] - 1
    ids = np.empty(int(bounds[-1]), np.int32)
    is_content = np.ones(len(ids), bool)
    mask = np.repeat((batch.roles == _ASSISTANT).astype(np.int8), bounds[1:] - first)
    for role, role_ids in enumerate(template.roles):
        starts = first[batch.roles == role]
        for step, token in enumerate((template.start, *role_ids.tolist(), template.sep)):
            ids[starts + step] = token
            is_content[starts + step] = False
            mask[starts + step] = 0
    ids[last] = template.end
    is_content[last] = False
    ids[is_content] = contents
    unusable[TOOLS] = _with_tools(batch)
    return TokenTurns(ids, mask, bounds, _withhold(mask, batch.learn, bounds), unusable)


def _with_tools(batch: TurnBatch) -> Places:
    """The turns that ChatML has no place for; of one with schemas of tools, the first."""
    found = np.isin(batch.roles, _NOT_RENDERED)
    if any(batch.fields):
        found |= np.array([*map(bool, batch.fields)])
    if any(batch.tools):
        found[batch.offsets[np.flatnonzero([*map(bool, batch.tools)])]] = True
    return np.flatnonzero(found)


def _withhold(mask: Mask, learn: NDArray[np.int8], bounds: Places) -> Places:
    """Take out of a mask what is not to be learned; the positions that this changed."""
    if (learn == LEARN_ALL).all():
        return np.empty(0, np.int64)
    no_loss = np.repeat(learn & LEARN_CONTENT == 0, np.diff(bounds))
    no_loss[bounds[1:] - 1] = learn & LEARN_END == 0
    withheld = np.flatnonzero(no_loss & (mask > 0))
    mask[withheld] = 0
    return withheld


def _unusable(
    template: Template, texts: list[bytes], ids: NDArray[np.uint32], sizes: Places
) -> dict[str, Places]:
    """The texts of which nothing is left, and those that spell a mark of the template."""
    empty = [n for n in np.flatnonzero(sizes == 0).tolist() if texts[n].strip()]
    marks = [template.start, template.sep, template.end, template.pad, template.eos]
    forged = np.flatnonzero(np.isin(ids, np.array(marks, ids.dtype)))
    owners = np.unique(np.searchsorted(np.cumsum(sizes), forged, side="right"))
    return {NO_TOKENS: np.array(empty, np.int64), SPELLS_MARK: owners.astype(np.int64)}


def _encode(
    template: Template, texts: list[bytes]
) -> tuple[NDArray[np.uint32], Places, dict[str, Places]]:
    encoded, refused = encode_each(template.encoder, texts)
    sizes = np.diff(encoded.offsets)
    if len(sizes) != len(texts) or (len(sizes) and int(encoded.offsets[-1]) != len(encoded.ids)):
        raise TokenizerError(
            f"the encoder gave {len(sizes):,} encodings with {len(encoded.ids):,} ids for "
            f"{len(texts):,} texts; its offsets do not fit"
        )
    if len(encoded.ids) and int(encoded.ids.max()) >= template.vocab_bound:
        raise TokenizerError(
            f"the encoder gave the id {int(encoded.ids.max())}, but the tokenizer's ids lie "
            f"below {template.vocab_bound}"
        )
    unusable = _unusable(template, texts, encoded.ids, sizes)
    if refused:
        kept = [n for n in unusable[NO_TOKENS].tolist() if n not in refused]
        unusable[NO_TOKENS] = np.array(kept, np.int64)
    unusable[NOT_ENCODABLE] = np.array(sorted(refused), np.int64)
    return encoded.ids, sizes, unusable


def spans(starts: Places, sizes: Places) -> Places:
    """Positions of several runs, one run after another: ``sizes[i]`` of them from ``starts[i]``."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    places: Places = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - sizes), sizes)
    return places
