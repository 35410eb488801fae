"""Which rows of others reach a learner, on two bases with tokenizers of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from srl_agents.credit.settings import CreditSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import Episode, ExchangedBatch, MatchSpec, TrainingBatch, Trajectory, Turn
from srl_agents.sharing.exchange_settings import ExchangeSettings
from srl_agents.sharing.met_states import met_states, turn_rewards
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.training.parts.exchange_rounds import ExchangeTerms, RolloutExchange

DIGEST = "0123456789abcdef"
IDS = {name: f"{name}@2-{DIGEST}" for name in ("alice", "bob")}
PLAYERS = {agent: name for name, agent in IDS.items()}
TERMS = ExchangeTerms(
    settings=ExchangeSettings(clip=None),
    credits={"task": CreditSettings()},
    scale=False,
    max_new_tokens=6,
    max_staleness=None,
)


@pytest.fixture(scope="module")
def learners(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GRPOLearner]:
    found = {}
    for number, name in enumerate(IDS):
        folder = tmp_path_factory.mktemp(name) / "model"
        random_model.build(folder, hidden=32, vocab=320 - 30 * number, seed=number)
        base = BaseModel.load(folder, lora_rank=2, device="cpu")
        found[name] = GRPOLearner(name, base, GRPOSettings(), 1.0, number)
        found[name].version = 2
    return found


def turn(base: BaseModel, reply: str, observation: str = "2 + 2?", **more: Any) -> Turn:
    ids = base.encode_reply(reply)
    values: dict[str, Any] = {
        "turn_index": 0, "observation": observation, "reply": reply, "invalid": None,
        "reward": 0.0, "components": {}, "prompt_ids": base.encode_prompt(observation),
        "completion_ids": ids, "logprobs": (-0.5,) * len(ids), "finish": "stop",
    }  # fmt: skip
    return Turn(**(values | more))


def episode(name: str, turns: list[Turn], reward: float, **more: Any) -> Episode:
    """One match of one seat."""
    spec = MatchSpec(
        env_id="task-v0", seed=1, split="train", seats=(IDS[name],), learner_seats=(0,),
        purpose=more.pop("purpose", "self"), options=more.pop("options", {}),
    )  # fmt: skip
    own = tuple(replace(one, version=IDS[name]) for one in turns)
    trajectory = Trajectory(
        seat=0, policy=IDS[name], turns=own, outcome=reward, total_reward=reward,
        components={"format": 0.0},
    )  # fmt: skip
    return Episode(spec=spec, trajectories=(trajectory,), termination=more.pop("termination", "ok"))


def exchange_of(
    learners: dict[str, GRPOLearner], episodes: list[Episode], terms: ExchangeTerms = TERMS
) -> tuple[RolloutExchange, list[str]]:
    lines: list[str] = []
    found = RolloutExchange(terms, learners, lambda spec: "task", lines.append)
    found.observe(1, episodes, PLAYERS)
    return found, lines


def both(learners: dict[str, GRPOLearner]) -> list[Episode]:
    """alice is right twice of two, bob once of two: capabilities 1 and 1/2."""
    return [
        episode(name, [turn(learners[name].base, reply)], reward)
        for name, reply, reward in (
            ("alice", "rock", 1.0), ("alice", "paper", 1.0), ("bob", "rock", 1.0), ("bob", "12", -1.0),
        )
    ]  # fmt: skip


def extended(
    learners: dict[str, GRPOLearner],
    episodes: list[Episode],
    name: str = "alice",
    terms: ExchangeTerms = TERMS,
) -> tuple[TrainingBatch | None, dict[str, float], list[str]]:
    found, lines = exchange_of(learners, episodes, terms)
    return *found.extend(name, None), lines


def test_a_reader_gets_the_rows_of_others_in_its_own_tokens(
    learners: dict[str, GRPOLearner],
) -> None:
    batch, metrics, lines = extended(learners, both(learners))
    assert isinstance(batch, ExchangedBatch)
    base = learners["alice"].base
    replies = [
        base.decode(ids[mask].tolist())
        for ids, mask in zip(batch.completion_ids_RT, batch.completion_mask_RT, strict=True)
    ]
    assert replies == ["rock", "12"]
    prompts = [
        tuple(ids[mask].tolist())
        for ids, mask in zip(batch.prompt_ids_RP, batch.prompt_mask_RP, strict=True)
    ]
    assert set(prompts) == {base.encode_prompt("2 + 2?")}
    # points 1, 1 of alice, and 2 * 1, 2 * 0 of bob: the mean is 1, a reward of 1
    assert batch.advantages_RT[:, 0].tolist() == [0.0, -2.0]
    assert batch.coefficients_R.tolist() == [0.5, 0.5]
    assert [version.learner for version in batch.versions] == ["bob", "bob"]
    assert metrics["exchange/rows"] == 2
    assert lines == []

    batch, _, _ = extended(learners, both(learners), "bob")
    assert isinstance(batch, ExchangedBatch)
    # points 1, 0 of bob, and 1/2 twice of alice: the mean is 1/2, a reward of 0
    assert batch.advantages_RT[:, 0].tolist() == [1.0, 1.0]
    assert batch.coefficients_R.tolist() == [2.0, 2.0]


def test_without_success_there_is_no_exchange_and_it_is_counted(
    learners: dict[str, GRPOLearner],
) -> None:
    episodes = [*both(learners)[:2], *both(learners)[3:]]  # bob only loses
    for name in IDS:
        batch, metrics, (line,) = extended(learners, episodes, name)
        assert batch is None
        assert metrics["exchange/no_capability"] == 1
        assert "never succeeded" in line
    naive = replace(TERMS, settings=ExchangeSettings(estimator="naive"))
    assert extended(learners, episodes, "bob", naive)[0] is not None


def test_equal_rewards_bring_no_rows(learners: dict[str, GRPOLearner]) -> None:
    batch, metrics, (line,) = extended(learners, both(learners)[:3])
    assert batch is None
    assert metrics["exchange/rows"] == 0
    assert "earned the same" in line


@pytest.mark.parametrize(
    "other",
    [
        {"observation": "3 + 3?"},
        {"options": {"level": 2}},
        {"purpose": "past"},
    ],
)
def test_rows_of_states_that_the_reader_did_not_meet_are_left_out(
    learners: dict[str, GRPOLearner], other: dict[str, Any]
) -> None:
    base = learners["bob"].base
    shown = {key: other[key] for key in other if key == "observation"}
    rest = {key: other[key] for key in other if key != "observation"}
    episodes = both(learners)[:2]
    episodes += [
        episode("bob", [turn(base, "rock", **shown)], reward, **rest) for reward in (1.0, -1.0)
    ]
    batch, metrics, (line,) = extended(learners, episodes)
    assert batch is None
    assert metrics["exchange/unmet"] == 2
    assert "no state in common" in line


def test_void_masked_and_refused_replies_teach_nothing_good(
    learners: dict[str, GRPOLearner],
) -> None:
    base, (first, second, right, wrong) = learners["bob"].base, both(learners)
    void = replace(right, termination="void")
    masked = episode("bob", [turn(base, "rock", masked=True)], 1.0)
    refused = episode("bob", [turn(base, "rock", invalid="malformed")], 1.0)
    for one in (void, masked):
        batch, metrics, _ = extended(learners, [first, second, one, wrong, right])
        assert batch is not None
        assert metrics["exchange/rows"] == 2
    lost = episode("alice", [turn(learners["alice"].base, "5")], -1.0)
    batch, _, _ = extended(learners, [lost, first, refused, wrong, right])
    assert batch is not None
    assert batch.rows == 2  # a refused reply is not praised for a win


def test_what_a_reader_cannot_read_or_could_not_write_is_counted(
    learners: dict[str, GRPOLearner],
) -> None:
    base, episodes = learners["bob"].base, both(learners)
    half = base.encode_reply("é")[:1]
    broken = turn(base, "", completion_ids=half, logprobs=(-0.5,))
    long = turn(base, "12345678901234567890")
    batch, metrics, _ = extended(
        learners, [*episodes, episode("bob", [broken], -1.0), episode("bob", [long], -1.0)]
    )
    assert batch is not None
    assert (metrics["exchange/unreadable"], metrics["exchange/too_long"]) == (1, 1)
    assert metrics["exchange/rows"] == 2


def test_rows_that_are_too_old_are_counted(learners: dict[str, GRPOLearner]) -> None:
    terms = replace(TERMS, max_staleness=0)
    assert extended(learners, both(learners), "alice", terms)[1]["exchange/rows"] == 2
    learners["bob"].version = 3
    try:
        _, metrics, _ = extended(learners, both(learners), "alice", terms)
    finally:
        learners["bob"].version = 2
    assert (metrics["exchange/rows"], metrics["exchange/too_old"]) == (0, 2)


def test_later_turns_meet_at_equal_prompts_and_turn_numbers(
    learners: dict[str, GRPOLearner],
) -> None:
    """With a memory the earlier turns are a part of the prompt."""
    credits = {"task": CreditSettings(level="turn")}
    games = []
    for name, first in (("alice", "rock"), ("bob", "paper")):
        base = learners[name].base
        turns = [turn(base, first), turn(base, "12", "and now?", reward=0.0)]
        games.append(episode(name, turns, 1.0))

    def sizes(remembers: bool) -> list[int]:
        states = met_states(games, PLAYERS, lambda spec: "task", credits, remembers=remembers)
        return [len(state.turns) for state in states]

    assert sizes(remembers=False) == [2, 2]
    assert sizes(remembers=True) == [2, 1, 1]


def test_two_turns_of_one_seat_with_one_text_are_two_states(
    learners: dict[str, GRPOLearner],
) -> None:
    """What is paid from a later turn on is not comparable."""
    games = [
        episode(name, [turn(learners[name].base, "rock"), turn(learners[name].base, "12")], 1.0)
        for name in IDS
    ]
    credits = {"task": CreditSettings()}
    states = met_states(games, PLAYERS, lambda spec: "task", credits, remembers=False)
    assert [len(state.turns) for state in states] == [2, 2]


def test_a_turn_is_worth_what_was_paid_from_it_on(learners: dict[str, GRPOLearner]) -> None:
    base = learners["alice"].base
    turns = [turn(base, "1", reward=0.25), turn(base, "2", reward=0.0)]
    (played,) = episode("alice", turns, 1.0).trajectories
    assert turn_rewards(played, CreditSettings()) == [1.0, 1.0]
    assert turn_rewards(played, CreditSettings(level="turn")) == [1.0, 0.75]
    halved = CreditSettings(level="turn", discount=0.5)
    assert turn_rewards(played, halved) == [0.25 + 0.375, 0.75]


def test_strangers_are_named_once_in_one_line(learners: dict[str, GRPOLearner]) -> None:
    """The models are random, so a reply of one is unlikely for the other."""
    terms = replace(TERMS, settings=ExchangeSettings())
    found, lines = exchange_of(learners, both(learners), terms)
    for step in (0, 1):
        batch, _ = found.extend("alice", None)
        assert batch is not None
        ready, metrics = found.weighed({"alice": batch}, step)
        assert ready == {}  # no row is left, so no step is taken
        assert metrics["alice"]["exchange/below"] == 1.0
    (line,) = lines
    assert line.startswith(
        "update 1: exchange: alice learns nothing from others: all rows were clipped"
    )
    assert "\n" not in line


def test_a_naive_exchange_learns_as_if_the_reader_had_written_the_rows(
    learners: dict[str, GRPOLearner],
) -> None:
    naive = replace(TERMS, settings=ExchangeSettings(estimator="naive"))
    batch, metrics, _ = extended(learners, both(learners), "alice", naive)
    assert batch is not None
    assert not isinstance(batch, ExchangedBatch)
    assert batch.advantages_RT[:, 0].tolist() == [0.5, -1.5]  # around the plain mean, 1/2
    now_RT = learners["alice"].token_logprobs(batch, "alice")
    assert np.array_equal(batch.logprobs_RT, now_RT)
    assert metrics["exchange/gradient_share"] == 1.0
