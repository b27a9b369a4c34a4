"""Parquet data sets and tokenizers, put on a hub from plain Python values."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from loopback_hub.hub import Hub
from loopback_hub.repository import Repo

Rows = Sequence[Mapping[str, Any]]
File: TypeAlias = Rows | pa.Table | bytes  # bytes: a parquet file as it is
Configs = Mapping[str, Mapping[str, Sequence[File]]]  # config -> split -> files

END_OF_TEXT = "<|endoftext|>"
CONVERTED = "refs/convert/parquet"


def parquet_bytes(table: pa.Table | Rows, *, row_group_size: int | None = None) -> bytes:
    """A parquet file of a table, or of rows whose types Arrow infers."""
    if not isinstance(table, pa.Table):
        table = pa.Table.from_pylist([dict(row) for row in table])
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=row_group_size)
    return sink.getvalue()


def card(front_matter: Mapping[str, Any], text: str = "# A data set for tests\n") -> bytes:
    """A README whose YAML front matter is the given mapping."""
    matter = yaml.safe_dump(dict(front_matter), sort_keys=False, allow_unicode=True)
    return f"---\n{matter}---\n{text}".encode()


def publish_dataset(
    hub: Hub,
    repo_id: str,
    configs: Configs,
    *,
    front_matter: Mapping[str, Any] | None = None,
    sizes: bool = True,
    converted: bool = False,
    row_group_size: int | None = None,
    **access: Any,
) -> Repo:
    """Publish parquet files ``CONFIG/SPLIT-00000-of-00002.parquet`` and a card that lists them.

    The first config is the default one. ``front_matter`` replaces or adds keys of the card
    (``{"configs": [...]}`` for other globs, ``{"license": "mit"}``); a value of None removes
    one. ``sizes`` states rows and bytes in the card (switch it off for files that are no valid
    parquet), ``converted`` also makes the branch of converted parquet files, ``access`` is
    ``gated``, ``private`` and ``readers`` of ``Hub.repo``.
    """
    encoded = {
        config: {
            split: [_encoded(file, row_group_size) for file in files]
            for split, files in splits.items()
        }
        for config, splits in configs.items()
    }
    matter: dict[str, Any] = {"configs": _config_list(encoded)}
    if sizes:
        matter["dataset_info"] = [_info(config, splits) for config, splits in encoded.items()]
    matter |= front_matter or {}
    readme = card({key: value for key, value in matter.items() if value is not None})
    repo = hub.repo("dataset", repo_id, **access)
    repo.commit(
        {"README.md": readme} | _files(encoded, "{config}/{split}-{k:05d}-of-{n:05d}.parquet")
    )
    if converted:
        repo.commit(_files(encoded, "{config}/{split}/{k:04d}.parquet"), ref=CONVERTED)
    return repo


def _encoded(file: File, row_group_size: int | None) -> bytes:
    return file if isinstance(file, bytes) else parquet_bytes(file, row_group_size=row_group_size)


Encoded = Mapping[str, Mapping[str, Sequence[bytes]]]


def _files(configs: Encoded, pattern: str) -> dict[str, bytes]:
    return {
        pattern.format(config=config, split=split, k=k, n=len(files)): data
        for config, splits in configs.items()
        for split, files in splits.items()
        for k, data in enumerate(files)
    }


def _config_list(configs: Encoded) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = [
        {
            "config_name": config,
            "data_files": [{"split": s, "path": f"{config}/{s}-*.parquet"} for s in splits],
        }
        for config, splits in configs.items()
    ]
    if listed:
        listed[0]["default"] = True
    return listed


def _info(config: str, splits: Mapping[str, Sequence[bytes]]) -> dict[str, Any]:
    """The ``dataset_info`` of one config: true row counts, and Arrow bytes as the split's size."""
    tables = {
        split: [pq.read_table(io.BytesIO(data)) for data in files]
        for split, files in splits.items()
    }
    stated = [
        {
            "name": split,
            "num_bytes": sum(table.nbytes for table in read),
            "num_examples": sum(table.num_rows for table in read),
        }
        for split, read in tables.items()
    ]
    return {
        "config_name": config,
        "splits": stated,
        "download_size": sum(len(data) for files in splits.values() for data in files),
        "dataset_size": sum(split["num_bytes"] for split in stated),
    }


def byte_level_tokenizer(
    texts: Iterable[str] = (),
    *,
    vocab_size: int = 300,
    special_tokens: Sequence[str] = (END_OF_TEXT,),
) -> bytes:
    """The tokenizer.json of a byte-level BPE tokenizer trained on a few texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return str(tokenizer.to_str()).encode()


def publish_tokenizer(
    hub: Hub,
    repo_id: str,
    tokenizer_json: bytes | None = None,
    *,
    eos_token: str | None = END_OF_TEXT,
    files: Mapping[str, bytes] | None = None,
    **access: Any,
) -> Repo:
    """Publish a model repository that holds a fast tokenizer (a small one unless given).

    With ``eos_token=None`` its configuration names none. ``files`` adds or replaces files.
    """
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 2048,
    }
    if eos_token is not None:
        config["eos_token"] = eos_token
    repo = hub.repo("model", repo_id, **access)
    repo.commit(
        {
            "config.json": json.dumps({"model_type": "gpt2"}).encode(),
            "tokenizer.json": tokenizer_json or byte_level_tokenizer(),
            "tokenizer_config.json": json.dumps(config).encode(),
            **(files or {}),
        }
    )
    return repo
