"""Fetch the registered data sets, or make their offline sample, and save each to ``data/<name>/``.

    python download_data.py [NAME ...] [--list] [--sample] [--data-dir DIR] [--limit N]

``DATASETS`` is the one list of data sets. A new one needs an entry here, and a normalizer and a
weight in the notebook. Exit status: 0 all done, 1 at least one failed, 2 wrong arguments.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from pipeline_lib.downloads import fetch
from pipeline_lib.downloads.outcomes import Outcome
from pipeline_lib.downloads.plans import EVERYTHING, FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec, choose_datasets
from pipeline_lib.hub.retry import DEFAULT_RETRIES, RetryPolicy
from pipeline_lib.records import OnProgress
from pipeline_lib.sampledata import make

ROOT = Path(__file__).resolve().parent
if not (ROOT / "full_llm_pipeline.ipynb").exists():  # installed: data does not go beside libraries
    ROOT = Path.cwd()
DATA_DIR = ROOT / "data"
SAMPLE_DIR = DATA_DIR / "sample"
GIB = 1 << 30


def keep_hub_caches_in(data_dir: Path) -> None:
    """Point the Hub caches into ``data_dir``, unless the user pointed them somewhere else.

    The clients read these variables once, when they are imported. The login token stays in the
    place where ``hf auth login`` put it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if "HF_HOME" not in os.environ:
        os.environ.setdefault("HF_TOKEN_PATH", str(cache / "huggingface" / "token"))
        os.environ.setdefault("HF_DATASETS_CACHE", str(data_dir / ".hf_cache" / "datasets"))
        os.environ["HF_HOME"] = str(data_dir / ".hf_cache")


if "huggingface_hub" not in sys.modules:  # the one effect an import may have
    keep_hub_caches_in(DATA_DIR)


def _turns(role: str, content: str) -> pa.DataType:
    return pa.list_(pa.struct([(role, pa.string()), (content, pa.string())]))


TEXT = pa.string()
TURNS = _turns("role", "content")
FLAGGED = pa.struct([("flagged", pa.bool_())])

DATASETS: dict[str, DatasetSpec] = {
    "wildchat": DatasetSpec(
        path="allenai/WildChat-1M",
        role="dialogue",
        streaming=True,
        columns={"conversation": TURNS, "language": TEXT},
        licence="ODC-BY",
        citation="Zhao et al. 2024, WildChat, arXiv:2405.01470",
    ),
    "soda": DatasetSpec(
        path="allenai/soda",
        role="dialogue",
        columns={"dialogue": pa.list_(TEXT), "speakers": pa.list_(TEXT)},
        licence="CC-BY-4.0",
        citation="Kim et al. 2022, SODA, arXiv:2212.10465",
    ),
    "oasst2": DatasetSpec(
        path="OpenAssistant/oasst2",
        role="dialogue",
        group="message_tree_id",
        columns={
            "message_id": TEXT,
            "parent_id": TEXT,
            "message_tree_id": TEXT,
            "text": TEXT,
            "role": TEXT,
            "lang": TEXT,
            "rank": pa.int32(),
            "deleted": pa.bool_(),
            "review_result": pa.bool_(),
        },
        licence="Apache-2.0",
        citation="Köpf et al. 2023, OpenAssistant Conversations, arXiv:2304.07327",
    ),
    "openthoughts": DatasetSpec(
        path="open-thoughts/OpenThoughts-114k",
        role="reasoning",
        config="default",
        streaming=True,
        columns={"system": TEXT, "conversations": _turns("from", "value")},
        licence="Apache-2.0",
        citation="Guha et al. 2025, OpenThoughts, arXiv:2506.04178",
    ),
    "wikipedia": DatasetSpec(
        path="wikimedia/wikipedia",
        role="encyclopedic",
        config="20231101.en",
        max_bytes=32 * GIB,
        capped=("text",),
        columns={"title": TEXT, "text": TEXT},
        licence="CC-BY-SA-3.0 and GFDL",
        citation="Wikimedia Foundation, Wikipedia dump of 2023-11-01",
    ),
    "ultrafeedback": DatasetSpec(
        path="HuggingFaceH4/ultrafeedback_binarized",
        role="preference",
        splits=("train_prefs",),
        columns={"chosen": TURNS, "rejected": TURNS},
        licence="MIT",
        citation="Cui et al. 2023, UltraFeedback, arXiv:2310.01377",
    ),
    "ultrachat": DatasetSpec(
        path="HuggingFaceH4/ultrachat_200k",
        role="dialogue",
        splits=("train_sft",),
        columns={"messages": TURNS},
        licence="MIT",
        citation="Ding et al. 2023, UltraChat, arXiv:2305.14233",
    ),
    "lmsys": DatasetSpec(
        path="lmsys/lmsys-chat-1m",
        role="dialogue",
        streaming=True,
        gated=True,
        columns={"conversation": TURNS, "openai_moderation": pa.list_(FLAGGED)},
        licence="LMSYS-Chat-1M agreement",
        citation="Zheng et al. 2023, LMSYS-Chat-1M, arXiv:2309.11998",
        disabled="gated, and its agreement forbids to pass derived data on",
    ),
    "arena": DatasetSpec(
        path="lmsys/chatbot_arena_conversations",
        role="dialogue",
        gated=True,
        columns={
            "winner": TEXT,
            "conversation_a": TURNS,
            "conversation_b": TURNS,
            "openai_moderation": FLAGGED,
        },
        licence="CC-BY-4.0 (prompts), CC-BY-NC-4.0 (answers)",
        citation="Zheng et al. 2023, Judging LLM-as-a-Judge, arXiv:2306.05685",
        disabled="gated, answers for non-commercial use only",
    ),
    "dailydialog": DatasetSpec(
        path="li2017dailydialog/daily_dialog",
        role="dialogue",
        config="default",
        parquet="refs/convert/parquet",
        columns={"dialog": pa.list_(TEXT)},
        licence="CC-BY-NC-SA-4.0",
        citation="Li et al. 2017, DailyDialog, arXiv:1710.03957",
        disabled="for non-commercial use only",
    ),
    "bst": DatasetSpec(
        path="ParlAI/blended_skill_talk",
        role="dialogue",
        columns={
            "previous_utterance": pa.list_(TEXT),
            "free_messages": pa.list_(TEXT),
            "guided_messages": pa.list_(TEXT),
        },
        licence="unknown",
        citation="Smith et al. 2020, Blended Skill Talk, arXiv:2004.08449",
        disabled="its licence is not known",
    ),
    "openr1_math": DatasetSpec(
        path="open-r1/OpenR1-Math-220k",
        role="reasoning",
        config="default",
        columns={
            "messages": TURNS,
            "generations": pa.list_(TEXT),
            "is_reasoning_complete": pa.list_(pa.bool_()),
            "correctness_math_verify": pa.list_(pa.bool_()),
            "correctness_llama": pa.list_(pa.bool_()),
        },
        licence="Apache-2.0",
        citation="Open R1 2025, OpenR1-Math-220k, huggingface.co/open-r1",
    ),
    "general_thought": DatasetSpec(
        path="GeneralReasoning/GeneralThought-430K",
        role="reasoning",
        columns={
            "question": TEXT,
            "prev_messages": TURNS,
            "model_reasoning": TEXT,
            "model_answer": TEXT,
            "question_license": TEXT,
        },
        licence="MIT",
        citation="General Reasoning 2025, GeneralThought-430K, huggingface.co/GeneralReasoning",
    ),
    "nemotron": DatasetSpec(
        path="nvidia/Llama-Nemotron-Post-Training-Dataset",
        role="reasoning",
        config="SFT",
        splits=("chat", "science"),
        streaming=True,
        max_bytes=2 * GIB,
        columns={"input": TURNS, "output": TEXT, "license": TEXT, "system_prompt": TEXT},
        licence="CC-BY-4.0, and one in each row",
        citation="Bercovich et al. 2025, Llama-Nemotron, arXiv:2505.00949",
        disabled="the licence differs from row to row, and its converted branch is partial",
    ),
}


def download(
    names: Iterable[str] = (),
    data_dir: Path | str = DATA_DIR,
    *,
    limit: int = EVERYTHING,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    retries: RetryPolicy = DEFAULT_RETRIES,
) -> list[Outcome]:
    """Fetch the named data sets (without names all enabled ones) to ``data_dir/<name>``.

    A copy that is there and holds enough rows is kept. ``limit`` (rows of each, -1: all), ``seed``,
    ``on_progress`` and ``retries`` are those of ``FetchOptions``.

    The result has one ``Outcome`` for each data set, in their order: ``name``; ``status``, with
    ``status.good`` if it can be used now; ``rows``; ``size`` in bytes; ``detail``, which names the
    fault and the remedy. A data set that fails raises nothing and does not stop the others.
    ``ValueError`` for an unknown name or a wrong limit.
    """
    options = FetchOptions(limit, seed, on_progress, retries)
    return fetch.fetch_all(choose_datasets(DATASETS, names), Path(data_dir), options)


def make_sample(names: Iterable[str] = (), data_dir: Path | str = SAMPLE_DIR) -> list[Outcome]:
    """Make the offline sample of the named data sets (without names all enabled ones).

    The corpus of plain text is made too, as ``data_dir/corpus``. No network is used; it takes
    seconds and some 14 megabytes. The bytes are the same every time, so a sample that is there is
    kept; a sample of another version is made anew. The result has one ``Outcome`` for each data
    set, as that of ``download``, and one for the corpus. ``ValueError`` for an unknown name.
    """
    return make.make_all(choose_datasets(DATASETS, names), Path(data_dir))


def _print_wait(seconds: float, reason: str) -> None:
    print(f"  {reason}; waiting {seconds:.0f} s", flush=True)


class _Parser(argparse.ArgumentParser):
    """One line for a wrong argument, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser("download_data.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets (all enabled ones)")
    parser.add_argument("--list", action="store_true", help="list the registered data sets")
    parser.add_argument("--sample", action="store_true", help="make the offline sample instead")
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="default: data, with --sample data/sample"
    )
    parser.add_argument(
        "--limit", type=int, default=EVERYTHING, metavar="N", help="rows of each (-1: all)"
    )
    arguments = parser.parse_args(argv)
    try:
        choose_datasets(DATASETS, arguments.names)
        FetchOptions(arguments.limit)
    except ValueError as error:
        parser.error(str(error))
    if arguments.sample and arguments.limit != EVERYTHING:
        parser.error("--limit has no meaning with --sample, which is small and always whole")
    return arguments


def listing() -> str:
    """The registered data sets as a table."""
    lines = [f"{'name':14} {'role':13} {'default':8} {'licence':32} path"]
    for name, spec in DATASETS.items():
        config = f" ({spec.config})" if spec.config else ""
        used = "yes" if spec.enabled else "no"
        note = f"  [{spec.disabled}]" if spec.disabled else ""
        lines.append(
            f"{name:14} {spec.role:13} {used:8} {spec.licence:32} {spec.path}{config}{note}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    arguments = _arguments(argv)
    if arguments.list:
        print(listing())
        return 0
    if arguments.sample:
        outcomes = make_sample(arguments.names, arguments.data_dir or SAMPLE_DIR)
    else:
        if arguments.data_dir and os.environ.get("HF_HOME") == str(DATA_DIR / ".hf_cache"):
            del os.environ["HF_HOME"], os.environ["HF_DATASETS_CACHE"]
            keep_hub_caches_in(arguments.data_dir.resolve())
        outcomes = download(
            arguments.names,
            arguments.data_dir or DATA_DIR,
            limit=arguments.limit,
            on_progress=lambda file, done, of: print(f"  {file} ({done} of {of})", flush=True),
            retries=RetryPolicy(on_wait=_print_wait),
        )
    print(*outcomes, sep="\n")
    return 0 if all(outcome.status.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
