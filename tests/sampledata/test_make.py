"""The offline sample: exact schemas, the same bytes every time, awkward where it should be."""

import itertools
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from download_data import DATASETS, make_sample
from pipeline_lib.columns import check_columns
from pipeline_lib.downloads import saved
from pipeline_lib.errors import DamagedFile
from pipeline_lib.sampledata import make
from pipeline_lib.sampledata.schemas import SCHEMAS
from pipeline_lib.storage import atomic
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    assert all(outcome.status.good for outcome in make_sample(DATASETS, folder))
    return folder


def rows(name: str) -> list[dict[str, Any]]:
    return list(make.rows_of(name))


def contents(name: str, column: str = "conversation", key: str = "content") -> list[list[Any]]:
    return [[turn[key] for turn in row[column]] for row in rows(name)]


def test_every_registered_source_has_a_sample_and_no_other() -> None:
    assert set(make.GENERATORS) == set(DATASETS) == set(SCHEMAS)


def test_two_runs_make_equal_files(made: Path, tmp_path: Path) -> None:
    make_sample(DATASETS, tmp_path)
    first, second = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in (made, tmp_path)
    )
    assert first == second


def test_it_takes_seconds_and_a_few_megabytes(made: Path, tmp_path: Path) -> None:
    start = time.monotonic()
    make_sample(DATASETS, tmp_path)
    assert time.monotonic() - start < 20
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    assert 5e6 < size < 30e6


def test_a_second_call_finds_it_there(made: Path) -> None:
    assert {str(outcome.status) for outcome in make_sample(data_dir=made)} == {"already there"}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_rows_on_disk_have_the_exact_schema_and_satisfy_the_registry(made: Path, name: str) -> None:
    dataset = saved.load(made / name, DATASETS[name].columns, full=True)
    plain = dataset.data.schema.remove_metadata()
    assert plain == SCHEMAS[name]
    check_columns(plain, DATASETS[name].columns, name)
    assert len(dataset) >= 500


@pytest.mark.parametrize("name", [*sorted(SCHEMAS), make.CORPUS])
def test_the_size_that_preflight_states_is_the_size_on_disk(made: Path, name: str) -> None:
    files = (path for path in (made / name).rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    assert make.SAVED_KILOBYTES[name] * 1000 == pytest.approx(size, rel=0.1)


def test_text_is_varied() -> None:
    articles = [row["text"] for row in rows("wikipedia")]
    assert len(set(articles)) > 0.9 * len(articles)
    words = {word for text in articles for word in text.split()}
    assert len(words) > 500
    everything = "".join(str(row) for row in rows("wildchat"))
    assert all(letter in everything for letter in ("é", "Ł", "今", "駅", "ا", "🙂"))


def test_wildchat_has_the_oddities_of_conversations() -> None:
    said = contents("wildchat")
    roles = contents("wildchat", key="role")
    flat = [content for turns in said for content in turns]
    assert None in flat and "" in flat and "  \n" in flat
    assert any(turns == [] for turns in said)
    assert any(turns[-1:] == ["user"] for turns in roles)
    assert any(turns[:1] == ["assistant"] for turns in roles)
    for side in ("user", "assistant"):
        assert any((side, side) in itertools.pairwise(turns) for turns in roles)
    user = "".join(
        str(t["content"])
        for r in rows("wildchat")
        for t in r["conversation"]
        if t["role"] == "user"
    )
    assert all(token in user for token in CONTROL_TOKENS)


def test_soda_has_lists_that_do_not_match_and_speakers_out_of_turn() -> None:
    found = rows("soda")
    lengths = {len(row["speakers"]) - len(row["dialogue"]) for row in found}
    assert lengths == {-1, 0, 1}
    assert any(a == b for row in found for a, b in itertools.pairwise(row["speakers"]))
    assert any(len(set(row["speakers"])) == 3 for row in found)


def test_oasst2_has_deleted_rejected_and_orphaned_messages_in_interleaved_trees() -> None:
    found = rows("oasst2")
    known = {row["message_id"] for row in found}
    assert any(row["deleted"] for row in found)
    assert any(row["review_result"] is False for row in found)
    assert any(row["parent_id"] and row["parent_id"] not in known for row in found)
    assert any(
        row["parent_id"] is None and row["message_tree_id"] == row["message_id"] for row in found
    )
    trees = [key for key, _ in itertools.groupby(row["message_tree_id"] for row in found)]
    assert len(trees) > len(set(trees))
    assert {row["rank"] for row in found} >= {None, 0, 1, 2}


def test_oasst2_has_ranked_siblings_some_of_them_with_equal_texts() -> None:
    answers: dict[Any, list[Any]] = {}
    for row in rows("oasst2"):
        if row["role"] == "assistant":
            answers.setdefault(row["parent_id"], []).append((row["rank"], row["text"]))
    ranked = [dict(found) for found in answers.values() if len({rank for rank, _ in found}) > 1]
    assert len(ranked) > 300
    assert any(found.get(0) and found.get(0) == found.get(1) for found in ranked)


def test_openthoughts_has_every_form_of_reasoning() -> None:
    answers = [
        row["conversations"][-1]["value"]
        for row in rows("openthoughts")
        if len(row["conversations"]) > 1
    ]
    texts = [answer for answer in answers if answer]
    assert None in answers and "" in answers
    assert any("<think>" in text for text in texts)
    assert any("<|begin_of_thought|>" in t and "<|end_of_thought|>" not in t for t in texts)
    assert any("<|begin_of_thought|>\n\n\n\n<|end_of_thought|>" in text for text in texts)
    assert max(map(len, texts)) > 10_000
    assert any(len(row["conversations"]) == 1 for row in rows("openthoughts"))


def test_ultrafeedback_has_pairs_that_teach_nothing() -> None:
    found = rows("ultrafeedback")
    assert any(row["chosen"] == row["rejected"] for row in found)
    assert any(row["score_chosen"] == row["score_rejected"] for row in found)
    assert any(row["rejected"][-1]["content"] == "" for row in found)
    assert any(row["rejected"][-1]["role"] == "user" for row in found)


def test_arena_has_ties_equal_answers_and_battles_that_part() -> None:
    found = rows("arena")
    assert {row["winner"] for row in found} == {"model_a", "model_b", "tie", "tie (bothbad)"}
    assert any(row["conversation_a"] == row["conversation_b"] for row in found)
    assert any(row["turn"] > 1 for row in found)
    assert any(row["conversation_a"][0]["role"] == "assistant" for row in found)
    assert any(row["openai_moderation"]["flagged"] for row in found)


def test_lmsys_has_flagged_messages_and_rows_without_a_verdict() -> None:
    found = rows("lmsys")
    assert any(m["flagged"] for row in found for m in row["openai_moderation"] or ())
    assert any(row["openai_moderation"] is None for row in found)
    assert any(row["redacted"] for row in found)


def test_ultrachat_repeats_the_first_message_as_its_prompt() -> None:
    found = [row for row in rows("ultrachat") if row["messages"]]
    assert all(row["prompt"] == row["messages"][0]["content"] for row in found)


def test_dailydialog_is_cut_into_words_and_marks() -> None:
    found = [line for row in rows("dailydialog") for line in row["dialog"]]
    assert any(" ’ " in line for line in found) and any(" , " in line for line in found)
    assert all(line.endswith(" ") for line in found)
    assert {len(row["dialog"]) % 2 for row in rows("dailydialog")} == {0, 1}


def test_bst_has_lists_that_differ_by_one_and_scenes_without_an_opening() -> None:
    found = rows("bst")
    differ = {len(row["free_messages"]) - len(row["guided_messages"]) for row in found}
    assert differ == {-1, 0, 1}
    assert any(row["previous_utterance"] == [] for row in found)


def test_openr1_math_has_null_verdicts_and_attempts_without_an_end() -> None:
    found = rows("openr1_math")
    for column in ("correctness_math_verify", "correctness_llama", "finish_reasons"):
        assert {row[column] is None for row in found} == {True, False}
    assert any("</think>" not in attempt for row in found for attempt in row["generations"])
    assert any("<think>\n\n</think>" in row["messages"][-1]["content"] for row in found)


def test_general_thought_has_hidden_reasoning_history_and_licences() -> None:
    found = rows("general_thought")
    assert {row["model_reasoning"] for row in found} >= {None, "", " \n"}
    assert {len(row["prev_messages"] or ()) for row in found} == {0, 1, 2}
    assert {row["question_license"] for row in found} >= {"MIT", "CC-BY-NC-4.0", None}
    assert len({row["question_id"] for row in found}) < len(found)


def test_nemotron_has_empty_open_and_answerless_think_blocks() -> None:
    found = rows("nemotron")
    outputs = [row["output"] for row in found]
    assert any("<think>\n\n</think>" in text for text in outputs)
    assert any("<think>" in text and "</think>" not in text for text in outputs)
    assert any(text.endswith("</think>") for text in outputs)
    assert any([turn["role"] for turn in row["input"]] == ["system"] for row in found)
    assert any(len(row["input"]) > 2 for row in found) and any(not row["input"] for row in found)


def test_wikipedia_has_very_long_articles_and_empty_ones() -> None:
    sizes = [len(row["text"].encode()) for row in rows("wikipedia")]
    assert max(sizes) > 3 * 4096 and min(sizes) == 0


def test_the_corpus_is_several_files_with_nulls_blanks_and_duplicates(made: Path) -> None:
    files = sorted((made / make.CORPUS).glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(file) for file in files])
    texts = table.column("text").to_pylist()
    assert len(files) == make.CORPUS_FILES and len(texts) == 6 * make.CORPUS_ROWS
    assert table.schema.field("text").type == pa.string()
    assert None in texts and "" in texts and any(text and not text.strip() for text in texts)
    kept = [text for text in texts if text and text.strip()]
    assert len(set(kept)) < len(kept) and any("<|endoftext|>" in text for text in kept)


def test_a_corpus_that_was_changed_is_refused_and_not_overwritten(tmp_path: Path) -> None:
    files = make.make_corpus(tmp_path / make.CORPUS)
    files[0].write_bytes(b"mine")
    with pytest.raises(DamagedFile, match="Remove the folder"):
        make.make_corpus(tmp_path / make.CORPUS)
    assert files[0].read_bytes() == b"mine"


def test_a_sample_made_by_another_version_is_made_again(tmp_path: Path) -> None:
    make_sample(["soda"], tmp_path)
    manifest = tmp_path / "soda" / saved.MANIFEST
    old = atomic.load_json(manifest)
    old["origin"]["revision"] = "sample-0"
    atomic.save_json(manifest, old)
    assert [str(o.status) for o in make_sample(["soda"], tmp_path)] == ["done", "already there"]


def test_an_unknown_name_lists_the_samples(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no sample of 'nope'; there are wildchat"):
        make.make_source("nope", tmp_path / "nope", {})
