"""The tokenizer of a mixture: trained once, loaded after, trained again when the texts change."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from chat_world import in_row, numbered_chat, stored_conversations
from crashes import interleaved
from durability import broken_promises
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.mixture import Mixture, mix
from pipeline_lib.chat.store_format import in_columns
from pipeline_lib.errors import CacheError
from pipeline_lib.records import Turn
from pipeline_lib.storage import atomic
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.keyed_folder import META
from pipeline_lib.templates.chatml import RENDERED_ROLES, TEMPLATE, render
from pipeline_lib.templates.encoding import Template, encode_turns, template_for
from pipeline_lib.token_caches.trained_tokenizer import TrainedTokenizer, train_tokenizer
from pipeline_lib.tokenization.chat_files import ChatFiles
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS, ENDOFTEXT, IM_END, IM_SEP, PAD
from pipeline_lib.tokenization.tokenizer import load_tokenizer


@pytest.fixture
def mixture(tmp_path: Path) -> Mixture:
    return mix(
        stored_conversations(tmp_path / "in", {"one": [numbered_chat(i) for i in range(30)]}).train,
        {},
        seed=1,
    )


def test_it_is_trained_once_and_then_loaded(mixture: Mixture, tmp_path: Path) -> None:
    cache_options = CacheOptions(tmp_path)
    first = train_tokenizer(mixture, cache_options, vocab_size=290)
    before = (first.folder / "tokenizer.json").stat().st_mtime_ns
    again = train_tokenizer(mixture, cache_options, vocab_size=290)
    assert again.tokenizer.sha256 == first.tokenizer.sha256
    assert again.explanation.endswith("used as it is")
    assert (first.folder / "tokenizer.json").stat().st_mtime_ns == before


def test_control_tokens_are_in_it_and_end_a_document(mixture: Mixture, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(mixture, CacheOptions(tmp_path), vocab_size=290).tokenizer
    assert len({tokenizer.token_id(token) for token in CONTROL_TOKENS}) == 5
    assert tokenizer.eos_token == ENDOFTEXT


def test_its_key_names_all_that_decides_it(trained: TrainedTokenizer) -> None:
    key = atomic.load_json(trained.folder / META)["key"]
    assert key.keys() == {
        *("training_version", "control_tokens", "vocab_size", "settings"),
        *("max_bytes", "max_bytes_selects", "texts_fp", "record_version"),
    }


def test_it_loads_with_its_own_template(trained: TrainedTokenizer) -> None:
    assert trained.tokenizer.chat == ChatFiles({"default": TEMPLATE}, None, ENDOFTEXT, PAD)
    assert load_tokenizer(trained.folder).chat == trained.tokenizer.chat


def test_the_same_texts_give_the_same_file(mixture: Mixture, tmp_path: Path) -> None:
    files = [
        (
            train_tokenizer(mixture, CacheOptions(tmp_path / n), vocab_size=290).folder
            / "tokenizer.json"
        )
        for n in ("a", "b")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_another_size_budget_or_mixture_trains_another(mixture: Mixture, tmp_path: Path) -> None:
    cache_options = CacheOptions(tmp_path)
    train_tokenizer(mixture, cache_options, vocab_size=290)
    assert "vocab_size" in train_tokenizer(mixture, cache_options, vocab_size=291).explanation
    small = train_tokenizer(mixture, cache_options, vocab_size=290, max_bytes=50)
    assert "max_bytes" in small.explanation
    other = mix(mixture.conversations, {"one": 2}, seed=1)
    assert "texts_fp" in train_tokenizer(other, cache_options, vocab_size=290).explanation


def test_a_changed_file_is_refused_with_the_way_out(mixture: Mixture, tmp_path: Path) -> None:
    cache_options = CacheOptions(tmp_path)
    path = train_tokenizer(mixture, cache_options, vocab_size=290).folder / "tokenizer.json"
    before = path.read_bytes()
    path.write_bytes(before + b" ")
    with pytest.raises(CacheError, match=r"tokenizer.json has [\d,]+ bytes.*rmtree"):
        train_tokenizer(mixture, cache_options, vocab_size=290)
    path.write_bytes(before[:-1] + b" ")
    with pytest.raises(CacheError, match=r"tokenizer.json was changed.*rmtree"):
        train_tokenizer(mixture, cache_options, vocab_size=290)


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]
)
def test_a_missing_file_is_refused_too(mixture: Mixture, tmp_path: Path, name: str) -> None:
    cache_options = CacheOptions(tmp_path)
    (train_tokenizer(mixture, cache_options, vocab_size=290).folder / name).unlink()
    with pytest.raises(CacheError, match=name):
        train_tokenizer(mixture, cache_options, vocab_size=290)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedTokenizer:
    root = tmp_path_factory.mktemp("folder")
    texts = stored_conversations(root / "in", {"one": [numbered_chat(i) for i in range(30)]}).train
    return train_tokenizer(mix(texts, {}, seed=1), CacheOptions(root), vocab_size=320)


@pytest.fixture(scope="module")
def transformers_tokenizer(trained: TrainedTokenizer) -> Any:
    """The folder as ``transformers`` opens it."""
    import transformers

    return transformers.AutoTokenizer.from_pretrained(trained.folder)


def test_transformers_opens_the_folder_with_the_same_special_tokens(
    trained: TrainedTokenizer, transformers_tokenizer: Any
) -> None:
    assert (transformers_tokenizer.eos_token, transformers_tokenizer.pad_token) == (ENDOFTEXT, PAD)
    assert transformers_tokenizer.eos_token_id == trained.tokenizer.eos_id
    assert transformers_tokenizer.pad_token_id == trained.tokenizer.token_id(PAD)
    assert len(transformers_tokenizer) == trained.tokenizer.vocab_bound


@pytest.fixture(scope="module")
def template(trained: TrainedTokenizer) -> Template:
    return template_for(trained.tokenizer)


WITHOUT_MARKERS = st.text(max_size=40).filter(lambda text: "<|" not in text)


@given(
    st.lists(
        st.builds(
            Turn,
            role=st.sampled_from(RENDERED_ROLES),
            content=WITHOUT_MARKERS,
            learn=st.booleans(),
            cut=st.booleans(),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_its_chat_template_gives_our_text_ids_and_mask(
    template: Template, transformers_tokenizer: Any, turns: list[Turn]
) -> None:
    assert transformers_tokenizer.apply_chat_template(turns, tokenize=False) == render(turns)
    found = transformers_tokenizer.apply_chat_template(
        turns, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    ours = encode_turns(template, in_columns([in_row(turns)]))
    assert found["input_ids"] == ours.ids.tolist()
    assert found["assistant_masks"] == ours.mask.tolist()


def test_a_prompt_for_generation_opens_an_assistant_turn(transformers_tokenizer: Any) -> None:
    text = transformers_tokenizer.apply_chat_template(
        numbered_chat(1)[:1], tokenize=False, add_generation_prompt=True
    )
    assert text == render(numbered_chat(1)[:1]) + "<|im_start|>assistant<|im_sep|>"


def model_that_says(token: int, vocab_size: int) -> Any:
    """A model with random weights whose head prefers one token, whatever it reads."""
    from transformers import PhiConfig, PhiForCausalLM

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    model = PhiForCausalLM(PhiConfig(vocab_size=vocab_size, num_attention_heads=2, **sizes))
    model.lm_head.bias.data[token] = 99.0
    return model


@pytest.mark.parametrize(("said", "stops"), [(IM_END, True), (ENDOFTEXT, True), (IM_SEP, False)])
def test_a_model_beside_it_stops_behind_its_turn_and_behind_its_document(
    trained: TrainedTokenizer, tmp_path: Path, said: str, stops: bool
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    token = trained.tokenizer.token_id(said)
    model_that_says(token, trained.tokenizer.vocab_bound).save_pretrained(tmp_path)
    shutil.copytree(trained.folder, tmp_path, dirs_exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    text = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=6, do_sample=False)
    assert text[0, 3:].tolist() == [token] * (1 if stops else 6)
    assert model.generation_config.pad_token_id == trained.tokenizer.token_id(PAD)


def test_texts_with_too_few_pairs_give_fewer_ids_and_a_warning_with_both_numbers(
    mixture: Mixture, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache_options = CacheOptions(tmp_path)
    train_tokenizer(mixture, cache_options, vocab_size=290)
    assert "ran out" not in caplog.text
    for _ in range(2):  # also when it is only loaded
        caplog.clear()
        tokenizer = train_tokenizer(mixture, cache_options, vocab_size=5_000).tokenizer
        assert f"has {tokenizer.vocab_bound} ids, vocab_size asked for 5,000" in caplog.text
    assert 290 < tokenizer.vocab_bound < 1_000


def test_sizes_and_budgets_that_can_not_be_are_refused(mixture: Mixture, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="vocab_size"):
        train_tokenizer(mixture, CacheOptions(tmp_path), vocab_size=10)
    assert not list(tmp_path.glob("tokenizer-*"))
    with pytest.raises(ValueError, match="max_bytes"):
        train_tokenizer(mixture, CacheOptions(tmp_path), vocab_size=290, max_bytes=0)


def test_after_a_power_cut_the_tokenizer_is_whole_or_absent(
    mixture: Mixture, tmp_path: Path
) -> None:
    def train() -> None:
        train_tokenizer(mixture, CacheOptions(tmp_path), vocab_size=290)

    assert broken_promises(tmp_path, train) == []


def test_who_comes_second_takes_the_tokenizer_of_who_was_faster(
    mixture: Mixture, tmp_path: Path
) -> None:
    trained: list[TrainedTokenizer] = []

    def other() -> None:
        trained.append(train_tokenizer(mixture, CacheOptions(tmp_path), vocab_size=290))

    with interleaved([1], other) as calls:  # it found none, and is about to make a folder
        mine = train_tokenizer(mixture, CacheOptions(tmp_path), vocab_size=290)
    assert calls and mine.tokenizer == trained[0].tokenizer
    assert [path.name for path in tmp_path.glob("tokenizer-*")] == [mine.folder.name]
