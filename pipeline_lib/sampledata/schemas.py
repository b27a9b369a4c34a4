"""Arrow schemas of the sampled data sets, column for column as the Hub stores them."""

import pyarrow as pa

_TEXT, _INT, _REAL, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_WHEN = pa.timestamp("us", tz="UTC")


def _fields(kind: pa.DataType, *names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, kind) for name in names]


def _turns(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    return pa.list_(pa.struct(list(fields)))


CATEGORIES = (
    *("harassment", "harassment/threatening", "harassment_threatening"),
    *("hate", "hate/threatening", "hate_threatening"),
    *("self-harm", "self-harm/instructions", "self-harm/intent"),
    *("self_harm", "self_harm_instructions", "self_harm_intent"),
    *("sexual", "sexual/minors", "sexual_minors"),
    *("violence", "violence/graphic", "violence_graphic"),
)
TOXICITIES = (
    *("identity_attack", "insult", "obscene", "severe_toxicity", "sexual_explicit"),
    *("threat", "toxicity"),
)
_HEADER = pa.struct(_fields(_TEXT, "accept-language", "user-agent"))
SLASHED = tuple(name for name in CATEGORIES if "_" not in name)
"""The spelling of the categories that lmsys keeps."""
EARLY = tuple(n for n in SLASHED if "harassment" not in n and "self-harm/" not in n)
"""The categories there were when the arena's battles were judged."""


def _moderation(categories: tuple[str, ...]) -> pa.DataType:
    return pa.struct(
        [
            ("categories", pa.struct(_fields(_BOOL, *categories))),
            ("category_scores", pa.struct(_fields(_REAL, *categories))),
            ("flagged", _BOOL),
        ]
    )


_MESSAGES = _turns(("content", _TEXT), ("role", _TEXT))

SCHEMAS = {
    "wildchat": pa.schema(
        [
            *_fields(_TEXT, "conversation_hash", "model"),
            ("timestamp", _WHEN),
            (
                "conversation",
                _turns(
                    *_fields(_TEXT, "content", "country", "hashed_ip"),
                    ("header", _HEADER),
                    ("language", _TEXT),
                    ("redacted", _BOOL),
                    *_fields(_TEXT, "role", "state"),
                    ("timestamp", _WHEN),
                    ("toxic", _BOOL),
                    ("turn_identifier", _INT),
                ),
            ),
            ("turn", _INT),
            ("language", _TEXT),
            ("openai_moderation", pa.list_(_moderation(CATEGORIES))),
            ("detoxify_moderation", _turns(*_fields(_REAL, *TOXICITIES))),
            *_fields(_BOOL, "toxic", "redacted"),
            *_fields(_TEXT, "state", "country", "hashed_ip"),
            ("header", _HEADER),
        ]
    ),
    "soda": pa.schema(
        [
            *_fields(_TEXT, "head", "relation", "tail", "literal", "narrative"),
            *_fields(pa.list_(_TEXT), "dialogue", "speakers"),
            *_fields(_TEXT, "PersonX", "PersonY", "PersonZ"),
            ("original_index", _INT),
            *_fields(_TEXT, "split", "head_answer", "pmi_head_answer"),
            *_fields(_TEXT, "relation_tail", "pmi_relation_tail"),
        ]
    ),
    "oasst2": pa.schema(
        [
            *_fields(_TEXT, "message_id", "parent_id", "user_id", "created_date"),
            *_fields(_TEXT, "text", "role", "lang"),
            ("review_count", pa.int32()),
            *_fields(_BOOL, "review_result", "deleted"),
            ("rank", pa.int32()),
            ("synthetic", _BOOL),
            ("model_name", _TEXT),
            (
                "detoxify",
                pa.struct(
                    _fields(
                        _REAL,
                        *("toxicity", "severe_toxicity", "obscene", "identity_attack"),
                        *("insult", "threat", "sexual_explicit"),
                    )
                ),
            ),
            *_fields(_TEXT, "message_tree_id", "tree_state"),
            ("emojis", pa.struct([("name", pa.list_(_TEXT)), ("count", pa.list_(pa.int32()))])),
            (
                "labels",
                pa.struct(
                    [
                        ("name", pa.list_(_TEXT)),
                        ("value", pa.list_(_REAL)),
                        ("count", pa.list_(pa.int32())),
                    ]
                ),
            ),
        ]
    ),
    "openthoughts": pa.schema(
        [
            ("system", _TEXT),
            ("conversations", _turns(("from", _TEXT), ("value", _TEXT))),
        ]
    ),
    "wikipedia": pa.schema(_fields(_TEXT, "id", "url", "title", "text")),
    "ultrafeedback": pa.schema(
        [
            *_fields(_TEXT, "prompt", "prompt_id"),
            *_fields(_MESSAGES, "chosen", "rejected", "messages"),
            *_fields(_REAL, "score_chosen", "score_rejected"),
        ]
    ),
    "ultrachat": pa.schema(
        [*_fields(_TEXT, "prompt", "prompt_id"), ("messages", _MESSAGES)],
    ),
    "lmsys": pa.schema(
        [
            *_fields(_TEXT, "conversation_id", "model"),
            ("conversation", _MESSAGES),
            ("turn", _INT),
            ("language", _TEXT),
            ("openai_moderation", pa.list_(_moderation(SLASHED))),
            ("redacted", _BOOL),
        ]
    ),
    "arena": pa.schema(
        [
            *_fields(_TEXT, "question_id", "model_a", "model_b", "winner", "judge"),
            *_fields(_MESSAGES, "conversation_a", "conversation_b"),
            ("turn", _INT),
            ("anony", _BOOL),
            ("language", _TEXT),
            ("tstamp", _REAL),
            ("openai_moderation", _moderation(EARLY)),
            (
                "toxic_chat_tag",
                pa.struct(
                    [
                        ("roberta-large", pa.struct([("flagged", _BOOL), ("probability", _REAL)])),
                        ("t5-large", pa.struct([("flagged", _BOOL), ("score", _REAL)])),
                    ]
                ),
            ),
        ]
    ),
    "dailydialog": pa.schema(
        [("dialog", pa.list_(_TEXT)), *_fields(pa.list_(_INT), "act", "emotion")]
    ),
    "bst": pa.schema(
        [
            ("personas", pa.list_(_TEXT)),
            ("additional_context", _TEXT),
            ("previous_utterance", pa.list_(_TEXT)),
            ("context", _TEXT),
            *_fields(pa.list_(_TEXT), "free_messages", "guided_messages"),
            (
                "suggestions",
                pa.struct(
                    _fields(
                        pa.list_(_TEXT), "convai2", "empathetic_dialogues", "wizard_of_wikipedia"
                    )
                ),
            ),
            ("guided_chosen_suggestions", pa.list_(_TEXT)),
            ("label_candidates", pa.list_(pa.list_(_TEXT))),
        ]
    ),
    "openr1_math": pa.schema(
        [
            *_fields(_TEXT, "problem", "solution", "answer", "problem_type", "question_type"),
            *_fields(_TEXT, "source", "uuid"),
            ("is_reasoning_complete", pa.list_(_BOOL)),
            ("generations", pa.list_(_TEXT)),
            *_fields(pa.list_(_BOOL), "correctness_math_verify", "correctness_llama"),
            ("finish_reasons", pa.list_(_TEXT)),
            ("correctness_count", _INT),
            ("messages", _MESSAGES),
        ]
    ),
    "general_thought": pa.schema(
        [
            ("question_id", _INT),
            *_fields(_TEXT, "question_url", "question", "reference_answer"),
            ("prev_messages", _MESSAGES),
            *_fields(_TEXT, "model_name", "model_answer", "model_reasoning", "task"),
            *_fields(_TEXT, "question_license", "question_source"),
            ("community_answer_score", _REAL),
            ("community_question_score", _INT),
            ("verifier_score", _REAL),
        ]
    ),
    "nemotron": pa.schema(
        [
            ("input", _turns(("role", _TEXT), ("content", _TEXT))),
            *_fields(_TEXT, "output", "category", "license", "reasoning", "generator"),
            *_fields(_TEXT, "used_in_training", "version", "system_prompt"),
        ]
    ),
}
