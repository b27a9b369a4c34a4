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
_MODERATION = pa.struct(
    [
        ("categories", pa.struct(_fields(_BOOL, *CATEGORIES))),
        ("category_scores", pa.struct(_fields(_REAL, *CATEGORIES))),
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
            ("openai_moderation", pa.list_(_MODERATION)),
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
}
