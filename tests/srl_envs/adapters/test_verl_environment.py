"""Rows for veRL, its reward function, and its own classes over them where veRL is installed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.adapters import areal
from srl_envs.adapters import verl as door
from srl_envs.adapters.deal_seeds import deal_seeds
from srl_envs.errors import ConfigError, SRLError

pytest.importorskip("pyarrow")
ENV = "math_duel-v0"


def test_a_row_names_its_episode_and_replies_are_paid_as_in_it() -> None:
    (row, other) = door.rows(ENV, [7, 8], opponents="strong", problems=1)
    assert row["prompt"][0]["content"] != other["prompt"][0]["content"]
    assert json.loads(row["reward_model"]["ground_truth"])["seed"] == 7
    text = row["prompt"][0]["content"]
    strong = srl_envs.make_bot(ENV, "strong")(text)
    truth = row["reward_model"]["ground_truth"]
    paid = [door.compute_score(row["data_source"], reply, truth) for reply in (strong, "I pass.")]
    assert paid[0] > paid[1]
    assert paid[0] == door.compute_score(row["data_source"], strong, truth, extra_info={})


def test_games_of_several_turns_and_foreign_rows_are_refused() -> None:
    with pytest.raises(ConfigError, match="asks its seat more than once"):
        door.rows("connect_four-v0", [1])
    with pytest.raises(ConfigError, match="is not ours"):
        door.compute_score("openai/gsm8k", "4", "{}")
    with pytest.raises(ConfigError, match="agent_loop=True"):
        door.rows(ENV, [1], opponents="policy", problems=1)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": None},  # another deal for every attempt
        {"seed": 1.5},
        {"env_id": None},
        {"options": []},
        {"opponents": []},
        {"opponents": {"x": "strong"}},
        {"more": 1},
    ],
)
def test_a_row_that_was_changed_names_no_episode(change: dict[str, object]) -> None:
    (row,) = door.rows(ENV, [7], opponents="strong", problems=1)
    truth = json.loads(row["reward_model"]["ground_truth"])
    with pytest.raises(ConfigError, match="names no episode"):
        door.compute_score(row["data_source"], "4", json.dumps(truth | change))
    with pytest.raises(ConfigError, match="keep what `rows` wrote together"):
        door.compute_score("srl_envs/nim-v0", "4", json.dumps(truth))


@pytest.mark.parametrize("given", [[], 5, [None], [1.0], ["1"], [-1], [True]])
def test_seeds_of_rows_are_whole_numbers(given: Any) -> None:
    for make in (deal_seeds, partial(door.rows, ENV, problems=1), areal.rows):
        with pytest.raises(ConfigError, match=r"seeds?=|no seeds"):
            make(given)
    (row,) = door.rows(ENV, np.arange(7, 8), problems=1)
    assert row == door.rows(ENV, [7], problems=1)[0]


def test_rows_of_the_agent_loop_name_it_and_games_of_several_turns() -> None:
    (row,) = door.rows(
        "connect_four-v0", [3], seat=1, opponents={0: "middle"}, agent_loop=True, system="Win."
    )
    assert row["agent_name"] == "srl_game"
    assert row["prompt"][0] == {"role": "system", "content": "Win."}
    assert row["prompt"][1]["content"].count("O") > 1  # the other seat has moved
    named = json.loads(row["reward_model"]["ground_truth"])
    assert (named["opponents"], named["options"]) == ({"0": "middle"}, {})
    for wrong, reason in (
        ({"seat": 2}, "seats 0 to 1"),
        ({"opponents": {0: "policy"}}, "seat 0 is the one that learns"),
        ({"opponents": {2: "policy"}}, "seats 0 to 1"),
        ({"opponents": "strng"}, "no bot"),
        ({"opponents": ["strong"]}, "give a bot's name"),
        ({"opponents": {1: len}}, "a row holds only names"),
    ):
        with pytest.raises(SRLError, match=reason):
            door.rows("connect_four-v0", [1], agent_loop=True, **wrong)


def test_verl_reads_the_file_and_calls_the_reward(tmp_path: Path) -> None:
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.utils.dataset.rl_dataset import RLHFDataset

    path = tmp_path / "train.parquet"
    assert door.write_rows(door.rows(ENV, range(4), opponents="strong", problems=1), path) == 4
    from srl_agents.models.sources import random_model

    tokenizer = AutoTokenizer.from_pretrained(random_model.build(tmp_path / "model"))
    config = OmegaConf.create({"max_prompt_length": 2048, "cache_dir": str(tmp_path / "cache")})
    dataset = RLHFDataset([str(path)], tokenizer, config)
    assert len(dataset) == 4
    row = dataset[2]
    assert row["raw_prompt"][0]["role"] == "user"
    assert row["extra_info"]["seed"] == 2
    named = {"path": "pkg://srl_envs.adapters.verl", "name": "compute_score"}
    reward = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": named}}))
    reply = srl_envs.make_bot(ENV, "strong")(row["raw_prompt"][0]["content"])
    paid = [
        reward(
            data_source=row["data_source"],
            solution_str=said,
            ground_truth=row["reward_model"]["ground_truth"],
            extra_info=row["extra_info"],
        )
        for said in (reply, "I pass.")
    ]
    assert paid[0] > paid[1]
