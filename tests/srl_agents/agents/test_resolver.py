"""Agents are found without loading anything, and each model is loaded once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from srl_agents.agents import ModelPolicy
from srl_agents.agents.prompt_file import PromptSettings, write_prompt
from srl_agents.agents.resolver import Asking, Playing, adapter_shape, close_engines, find, seat
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.models.sources.catalog import TINY
from srl_envs.errors import ConfigError, ModelError, SRLError, UnknownPolicyError
from tests.chat_server import MODEL, chat_server

ENV = "nim-v0"
PLAYING = Playing(env_id=ENV, sampling=SamplingSettings(max_new_tokens=2), device="cpu")
SHOWN = PromptSettings(system="Be brief.").followed_by((("a", "b"),))


def adapter(folder: Path, inputs: int) -> Path:
    """Files of an adapter whose attention reads so many values per token."""
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text('{"r": 2, "lora_alpha": 4}')
    key = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    save_file({key: np.zeros((2, inputs), np.float32)}, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("strog", "Did you mean 'strong'"),
        ("bot:strog", "Did you mean 'strong'"),
        ("tinny", "Did you mean 'tiny'"),
        ("humen", "Did you mean 'human'"),
        ("./nowhere", "no agent './nowhere'"),
        ("runs/no/where", "no agent"),
        ("tiny+nowhere", "nowhere is not an adapter folder"),
        ("tiny+{other}", "it reads 7 values per token, and tiny has {width}"),
        ("tiny+{cut}", "cannot be read"),
        ("tiny+{bare}", "must hold adapter_config.json and adapter_model.safetensors"),
        ("tiny?prompt=nowhere.json", "prompt nowhere.json cannot be read"),
        ("openai:m@host", "give an address"),
        ("openai:m@http://a:b@host/v1", "may hold no user"),
    ],
)
def test_nobody_is_named_with_what_to_write(text: str, words: str, tmp_path: Path) -> None:
    width = json.loads((TINY / "config.json").read_text())["hidden_size"]
    cut, bare = adapter(tmp_path / "cut", width), adapter(tmp_path / "bare", width)
    (cut / "adapter_model.safetensors").write_bytes(b"\x08")
    (bare / "adapter_model.safetensors").unlink()
    text = text.format(other=adapter(tmp_path / "other", 7), cut=cut, bare=bare)
    with pytest.raises(SRLError) as caught:
        find(text, ENV)
    assert words.format(width=width) in str(caught.value)


def test_an_adapter_brings_its_prompt_and_a_name_may_say_another(tmp_path: Path) -> None:
    width = json.loads((TINY / "config.json").read_text())["hidden_size"]
    folder, other = adapter(tmp_path / "alice@3", width), tmp_path / "other"
    write_prompt(folder, SHOWN)
    other.mkdir()
    write_prompt(other, PromptSettings(system="Be long."))
    assert find(f"tiny+{folder}", ENV).prompt == SHOWN
    assert find(f"tiny+{folder}?prompt={other}", ENV).prompt.system == "Be long."
    assert find("tiny", ENV).prompt == PromptSettings()


def test_people_are_refused_where_nobody_asks_them() -> None:
    with pytest.raises(ConfigError, match="People play with `srl play`"):
        seat({"me": find("human", ENV)}, PLAYING)


def test_endpoints_are_asked_before_a_model_is_loaded(tmp_path: Path) -> None:
    """The model's folder is broken, and the error names the endpoint."""
    (tmp_path / "broken").mkdir()
    names = [str(tmp_path / "broken"), "openai:m@http://127.0.0.1:9/v1"]
    with pytest.raises(ModelError, match="does not answer"):
        seat({name: find(name, ENV) for name in names}, PLAYING)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"use_rslora": True}, "use_rslora"),
        ({"use_dora": True}, "use_dora"),
        ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
        ({"peft_type": "LOHA"}, "peft_type LOHA"),
    ],
)
def test_an_adapter_of_another_kind_is_refused_in_any_seat(
    tmp_path: Path, more: dict[str, Any], word: str
) -> None:
    """Its factors would be played at another scale, or not at all, without a word."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, **more}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=f"made with {word}"):
        find(f"tiny+{folder}", ENV)


@pytest.mark.slow
def test_one_base_serves_all_of_its_adapters_and_the_bare_model(tmp_path: Path) -> None:
    base = random_model.build(tmp_path / "base")
    model = BaseModel.load(base, lora_rank=2, lora_alpha=4, device="cpu")
    for seed, name in enumerate(("alice@3", "bob")):
        model.add_adapter(name.replace("@", "_"), seed=seed)
        model.save_adapter(name.replace("@", "_"), tmp_path / name)
    with chat_server() as server:
        names = {
            "bare": str(base),
            "alice": f"{base}+{tmp_path}/alice@3",
            "again": f"{base}+{tmp_path}/alice@3",
            "bob": f"{base}+{tmp_path}/bob",
            "served": f"openai:{MODEL}@{server.url}",
            "bot": "strong",
        }
        seated = seat({label: find(name, ENV) for label, name in names.items()}, PLAYING)
    assert list(seated) == list(names)
    policies = {k: s.policy for k, s in seated.items() if isinstance(s.policy, ModelPolicy)}
    loaded = [policies[k] for k in ("bare", "alice", "again", "bob")]
    assert len({id(policy.engine) for policy in loaded}) == 1
    versions = {k: p.version and p.version.label for k, p in policies.items()}
    assert versions == {
        "bare": None,
        "alice": "adapter_alice@3",
        "again": "adapter_alice@3",
        "bob": "adapter_unnamed@0",
        "served": None,
    }
    contents = {k: s.contents for k, s in seated.items()}
    assert contents["alice"] == contents["again"] != contents["bob"]
    assert contents["bare"]["adapter"] is None
    asyncio.run(close_engines(policies.values()))


@pytest.mark.parametrize(
    "wrong",
    [{"concurrency": 0}, {"in_flight": 0}, {"timeout_s": 0.0}, {"deadline_s": float("nan")}],
)
def test_endpoints_are_asked_at_least_once_and_in_some_time(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Asking(**wrong)


def test_only_adapters_are_proposed_for_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "alice.log").touch()
    with pytest.raises(UnknownPolicyError) as caught:
        adapter_shape(tmp_path / "alice")
    assert "Did you mean" not in str(caught.value)
    (tmp_path / "alice-best").mkdir()
    (tmp_path / "alice-best" / "adapter_config.json").touch()
    with pytest.raises(UnknownPolicyError, match="Did you mean 'alice-best'"):
        adapter_shape(tmp_path / "alice")
