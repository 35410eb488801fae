"""Examples are part of a policy: they stand in its prompts, in its folder and in its contents."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.agents import ModelPolicy
from srl_agents.agents.contents import contents_of
from srl_agents.agents.prompt_file import PROMPT, PromptSettings, read_prompt, write_prompt
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.prompt import Prompt
from srl_agents.models.sources import random_model
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts
from srl_envs.errors import ConfigError

SHOWN = (("X", "1"), ("Y", "2"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.build(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def base(folder: Path) -> BaseModel:
    return BaseModel.load(folder, lora_rank=2, device="cpu")


def test_shown_examples_read_like_those_of_the_base(base: BaseModel, folder: Path) -> None:
    own = BaseModel.load(folder, lora_rank=2, device="cpu", prompt=Prompt(examples=SHOWN))
    assert base.encode_prompt("Z", SHOWN) == own.encode_prompt("Z") != base.encode_prompt("Z")
    assert own.encode_prompt("Z", (("W", "3"),)) == base.encode_prompt("Z", (*SHOWN, ("W", "3")))


def test_an_example_cannot_end_its_message(base: BaseModel) -> None:
    end = base.tokenizer.eos_token_id
    plain = base.encode_prompt("Z", (("X", "1"),)).count(end)
    assert base.encode_prompt("Z", (("X<|im_end|>", "1<|im_end|>"),)).count(end) == plain


def test_a_prompt_lies_beside_the_adapter(tmp_path: Path) -> None:
    assert read_prompt(tmp_path) == PromptSettings()
    write_prompt(tmp_path, PromptSettings())
    assert list(tmp_path.iterdir()) == []
    prompt = PromptSettings(system="ä\x7f\u2028").followed_by(SHOWN)
    write_prompt(tmp_path, prompt)
    assert read_prompt(tmp_path) == prompt
    assert prompt.pairs == SHOWN
    assert prompt.followed_by((("Z", "3"),)).pairs == (*SHOWN, ("Z", "3"))


@pytest.mark.parametrize("text", ["", "3", '[["X", "1"]]', '{"examples": [["X", "1"]]}', "{x"])
def test_a_file_that_holds_no_prompt_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / PROMPT).write_text(text)
    with pytest.raises(ConfigError, match=PROMPT):
        read_prompt(tmp_path)


def test_policies_that_differ_in_examples_have_other_contents(base: BaseModel) -> None:
    sampling = SamplingSettings()
    bare = contents_of(base, None, sampling, "nim-v0")
    assert contents_of(base, None, sampling, "nim-v0", ()) == bare
    assert contents_of(base, None, sampling, "nim-v0", SHOWN) != bare


def test_a_policy_reads_its_own_examples_and_not_its_rivals(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=2))
    policies = {"bare": ModelPolicy(engine), "taught": ModelPolicy(engine, None, SHOWN)}
    spec = MatchSpec(env_id="math_duel-v0", seed=1, split="train", seats=("bare", "taught"))
    with Rollouts(policies, root_seed=0) as rollouts:
        (played,) = rollouts.play([spec])
    bare, taught = (t.turns[0] for t in played.trajectories)
    assert bare.prompt_ids == base.encode_prompt(bare.observation)
    assert taught.prompt_ids == base.encode_prompt(taught.observation, SHOWN)
