"""Arrow schemas of the sampled data sets, column for column as the Hub stores them.

Each is written as rows look: ``{...}`` is a struct, ``[...]`` is a list, and fields of one type
that follow each other stand in one text.
"""

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

Kind: TypeAlias = "pa.DataType | list[Kind] | Mapping[str, Kind]"

TEXT, INT, REAL, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
SHORT, WHEN = pa.int32(), pa.timestamp("us", tz="UTC")

CATEGORIES = (
    *("harassment", "harassment/threatening", "harassment_threatening"),
    *("hate", "hate/threatening", "hate_threatening"),
    *("self-harm", "self-harm/instructions", "self-harm/intent"),
    *("self_harm", "self_harm_instructions", "self_harm_intent"),
    *("sexual", "sexual/minors", "sexual_minors"),
    *("violence", "violence/graphic", "violence_graphic"),
)
"""The names that moderation services gave to kinds of content, in all spellings."""
UNDERSCORED = tuple(name for name in CATEGORIES if "/" not in name and "-" not in name)
"""The spelling that holds the values in wildchat."""
SLASHED = tuple(name for name in CATEGORIES if "_" not in name)
"""The spelling that lmsys keeps."""
EARLY = tuple(n for n in SLASHED if "harassment" not in n and "self-harm/" not in n)
"""The names that existed when the arena's battles were judged."""

TOXICITIES = (
    *("identity_attack", "insult", "obscene", "severe_toxicity", "sexual_explicit", "threat"),
    "toxicity",
)


def _moderation(categories: tuple[str, ...]) -> Kind:
    return {
        "categories": dict.fromkeys(categories, BOOL),
        "category_scores": dict.fromkeys(categories, REAL),
        "flagged": BOOL,
    }


_MESSAGES: Kind = [{"content role": TEXT}]
_HEADER: Kind = {"accept-language user-agent": TEXT}

_COLUMNS: dict[str, Mapping[str, Kind]] = {
    "wildchat": {
        "conversation_hash model": TEXT,
        "timestamp": WHEN,
        "conversation": [
            {
                "content country hashed_ip": TEXT,
                "header": _HEADER,
                "language": TEXT,
                "redacted": BOOL,
                "role state": TEXT,
                "timestamp": WHEN,
                "toxic": BOOL,
                "turn_identifier": INT,
            }
        ],
        "turn": INT,
        "language": TEXT,
        "openai_moderation": [_moderation(CATEGORIES)],
        "detoxify_moderation": [dict.fromkeys(TOXICITIES, REAL)],
        "toxic redacted": BOOL,
        "state country hashed_ip": TEXT,
        "header": _HEADER,
    },
    "soda": {
        "head relation tail literal narrative": TEXT,
        "dialogue speakers": [TEXT],
        "PersonX PersonY PersonZ": TEXT,
        "original_index": INT,
        "split head_answer pmi_head_answer relation_tail pmi_relation_tail": TEXT,
    },
    "oasst2": {
        "message_id parent_id user_id created_date text role lang": TEXT,
        "review_count": SHORT,
        "review_result deleted": BOOL,
        "rank": SHORT,
        "synthetic": BOOL,
        "model_name": TEXT,
        "detoxify": {
            "toxicity severe_toxicity obscene identity_attack": REAL,
            "insult threat sexual_explicit": REAL,
        },
        "message_tree_id tree_state": TEXT,
        "emojis": {"name": [TEXT], "count": [SHORT]},
        "labels": {"name": [TEXT], "value": [REAL], "count": [SHORT]},
    },
    "openthoughts": {"system": TEXT, "conversations": [{"from value": TEXT}]},
    "wikipedia": {"id url title text": TEXT},
    "ultrafeedback": {
        "prompt prompt_id": TEXT,
        "chosen rejected messages": _MESSAGES,
        "score_chosen score_rejected": REAL,
    },
    "ultrachat": {"prompt prompt_id": TEXT, "messages": _MESSAGES},
    "lmsys": {
        "conversation_id model": TEXT,
        "conversation": _MESSAGES,
        "turn": INT,
        "language": TEXT,
        "openai_moderation": [_moderation(SLASHED)],
        "redacted": BOOL,
    },
    "arena": {
        "question_id model_a model_b winner judge": TEXT,
        "conversation_a conversation_b": _MESSAGES,
        "turn": INT,
        "anony": BOOL,
        "language": TEXT,
        "tstamp": REAL,
        "openai_moderation": _moderation(EARLY),
        "toxic_chat_tag": {
            "roberta-large": {"flagged": BOOL, "probability": REAL},
            "t5-large": {"flagged": BOOL, "score": REAL},
        },
    },
    "dailydialog": {"dialog": [TEXT], "act emotion": [INT]},
    "bst": {
        "personas": [TEXT],
        "additional_context": TEXT,
        "previous_utterance": [TEXT],
        "context": TEXT,
        "free_messages guided_messages": [TEXT],
        "suggestions": {"convai2 empathetic_dialogues wizard_of_wikipedia": [TEXT]},
        "guided_chosen_suggestions": [TEXT],
        "label_candidates": [[TEXT]],
    },
    "openr1_math": {
        "problem solution answer problem_type question_type source uuid": TEXT,
        "is_reasoning_complete": [BOOL],
        "generations": [TEXT],
        "correctness_math_verify correctness_llama": [BOOL],
        "finish_reasons": [TEXT],
        "correctness_count": INT,
        "messages": _MESSAGES,
    },
    "general_thought": {
        "question_id": INT,
        "question_url question reference_answer": TEXT,
        "prev_messages": _MESSAGES,
        "model_name model_answer model_reasoning task question_license question_source": TEXT,
        "community_answer_score": REAL,
        "community_question_score": INT,
        "verifier_score": REAL,
    },
    "nemotron": {
        "input": [{"role content": TEXT}],
        "output category license reasoning generator used_in_training version": TEXT,
        "system_prompt": TEXT,
    },
}


def _fields(columns: Mapping[str, Kind]) -> list[tuple[str, pa.DataType]]:
    return [(name, _type(kind)) for names, kind in columns.items() for name in names.split()]


def _type(kind: Kind) -> pa.DataType:
    if isinstance(kind, list):
        return pa.list_(_type(kind[0]))
    return pa.struct(_fields(kind)) if isinstance(kind, Mapping) else kind


SCHEMAS = {name: pa.schema(_fields(columns)) for name, columns in _COLUMNS.items()}
