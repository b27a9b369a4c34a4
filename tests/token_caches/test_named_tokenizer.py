"""A tokenizer that a run names is opened at once, pinned, said, and fit for chats, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpora import EOS, texts, tokenizer_file
from loopback_hub import Hub
from loopback_hub.publish import byte_level_tokenizer, publish_tokenizer

from pipeline_lib.errors import HubError, TokenizerError
from pipeline_lib.token_caches.named_tokenizer import NamedTokenizer, named_tokenizer
from pipeline_lib.tokenization.bpe_training import train_bpe
from pipeline_lib.tokenization.tokenizer import load_tokenizer

END = "</s>"
DATA = byte_level_tokenizer(texts(9), special_tokens=(EOS, END, "<think>"))
LOOP = "{% for m in messages %}{{ m.role + ': ' + m.content + '" + END + "' }}{% endfor %}"
LOOP += "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
CONFIG: dict[str, Any] = {"eos_token": END, "chat_template": LOOP}


def named(name: object) -> NamedTokenizer:
    found = named_tokenizer(str(name))
    assert found is not None
    return found


def test_a_run_that_trains_its_own_names_none() -> None:
    assert named_tokenizer("train") is None


def test_a_folder_of_an_earlier_run_is_the_same_tokenizer(tmp_path: Path) -> None:
    tokenizer_file(tmp_path, train_bpe(texts(9), vocab_size=300).json)
    found = named(tmp_path)
    assert (found.tokenizer, found.place) == (load_tokenizer(tmp_path), str(tmp_path))
    assert found.explanation == (
        f"{tmp_path}: used as it is; documents end in {EOS}, chats are in ChatML"
    )


def test_a_name_with_a_sign_in_it_may_be_a_folder(tmp_path: Path) -> None:
    place = tokenizer_file(tmp_path / "acme@main", DATA, **CONFIG).parent
    assert named(place).place == str(place)


def test_a_repository_is_pinned_and_its_commit_is_said_if_it_was_not(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pipeline_lib")
    files = {"tokenizer_config.json": json.dumps(CONFIG).encode()}
    repo = publish_tokenizer(hub, "acme/tok", DATA, files=files)
    first, pinned = repo.sha, named(f"acme/tok@{repo.sha}")
    assert "is commit" not in caplog.text
    assert (pinned.place, pinned.tokenizer.revision) == ("acme/tok", first)
    repo.edit({"tokenizer.json": byte_level_tokenizer(vocab_size=280, special_tokens=(EOS, END))})
    assert named(f"acme/tok@{first}").tokenizer == pinned.tokenizer
    for name, said in (("acme/tok", "its main branch"), ("acme/tok@main", "main")):
        caplog.clear()
        assert named(name).tokenizer.sha256 != pinned.tokenizer.sha256
        assert f"acme/tok: {said} is commit {repo.sha} now; name acme/tok@{repo.sha}" in caplog.text


@pytest.mark.parametrize("special", [True, False])
def test_documents_end_in_the_token_for_that_and_not_in_that_of_a_turn(
    tmp_path: Path, special: bool
) -> None:
    fields = json.loads(DATA)
    fields["added_tokens"][1]["special"] = special
    place = tokenizer_file(tmp_path / "t", json.dumps(fields).encode(), **CONFIG).parent
    assert load_tokenizer(place).eos_token == END
    assert named(place).tokenizer == load_tokenizer(place, eos_token=EOS)
    without = byte_level_tokenizer(texts(9), special_tokens=(END,))
    other = tokenizer_file(tmp_path / "other", without, **CONFIG).parent
    assert named(other).tokenizer.eos_token == END


def test_what_is_said_names_the_family_of_the_template(tmp_path: Path) -> None:
    known = {"eos_token": END, "chat_template": LOOP + "{{ '<think>' if false }}"}
    first = named(tokenizer_file(tmp_path / "a", DATA, **known).parent)
    second = named(tokenizer_file(tmp_path / "b", DATA, **CONFIG).parent)
    assert first.explanation.endswith("by its own template (other reasoning models)")
    assert second.explanation.endswith("by its own template (of no known family)")


def test_what_can_not_be_used_for_chats_is_refused_at_once(tmp_path: Path) -> None:
    bare = tokenizer_file(tmp_path / "bare", DATA, eos_token=END).parent
    with pytest.raises(TokenizerError, match="no chat template, and not the control tokens"):
        named(bare)
    wrong = {"eos_token": END, "chat_template": "{% import 'x' as y %}"}
    with pytest.raises(TokenizerError, match="the chat template is refused"):
        named(tokenizer_file(tmp_path / "wrong", DATA, **wrong).parent)


def test_a_template_that_refuses_the_plainest_chat_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    named(tokenizer_file(tmp_path / "plain", DATA, **CONFIG).parent)
    assert "refused" not in caplog.text
    raises = {"eos_token": END, "chat_template": "{{ raise_exception('no') }}"}
    named(tokenizer_file(tmp_path / "wrong", DATA, **raises).parent)
    assert "a question with an answer is refused (template raises" in caplog.text


def test_what_is_not_there_is_named(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="neither an existing folder or file nor a Hub"):
        named(tmp_path / "gone")
    with pytest.raises(HubError, match="acme/none"):
        named("acme/none@main")
