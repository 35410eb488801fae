"""Rollouts keep exact tokens and depend on nothing but the match, the seat and the turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources.random_model import build
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Order, Rollouts
from srl_agents.rollouts.asking import PromptTokens
from srl_envs import make, replay
from srl_envs.api.episode import Step, Transcript
from srl_envs.errors import ConfigError, SandboxError


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> BaseModel:
    return BaseModel.load(build(tmp_path_factory.mktemp("model")))


def policies(base: BaseModel) -> dict[str, Policy]:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=6))
    bots: dict[str, Policy] = {f"bot:{n}": ScriptedPolicy(n) for n in ("random", "middle")}
    return {"base": ModelPolicy(engine), **bots}


def match(*seats: str, seed: int = 0, attempt: int = 0, env: str = "connect_four-v0") -> MatchSpec:
    return MatchSpec(
        env_id=env, seed=seed, split="train", seats=seats, attempt=attempt, cluster=f"train/{seed}"
    )


def played(
    table: dict[str, Policy], specs: list[MatchSpec], *, root_seed: int, **options: int
) -> list[Episode]:
    with Rollouts(table, root_seed=root_seed, **options) as rollouts:  # type: ignore[arg-type]
        return rollouts.play(specs)


SPECS = [
    match("base", "bot:random", seed=1),
    match("bot:middle", "base", seed=2),
    match("base", "base", seed=3, env="math_duel-v0"),
    match("bot:random", "bot:middle", seed=4),
]


@pytest.mark.slow
def test_company_and_order_change_nothing(base: BaseModel) -> None:
    together = played(policies(base), SPECS, root_seed=7)
    separate = [played(policies(base), [spec], root_seed=7, concurrency=1)[0] for spec in SPECS]
    backwards = played(policies(base), SPECS[::-1], root_seed=7, concurrency=2)[::-1]
    replies = [[[t.reply for t in tr.turns] for tr in e.trajectories] for e in together]
    for other in (separate, backwards):
        assert [[[t.reply for t in tr.turns] for tr in e.trajectories] for e in other] == replies
        assert [e.transcript_sha256 for e in other] == [e.transcript_sha256 for e in together]


def test_the_root_seed_and_the_attempt_change_the_samples(base: BaseModel) -> None:
    spec, other = match("base", "bot:random"), match("base", "bot:random", attempt=1)
    first, second = played(policies(base), [spec, other], root_seed=1)
    third = played(policies(base), [spec], root_seed=2)[0]
    texts = {
        tuple(t.completion_ids for t in e.trajectories[0].turns) for e in (first, second, third)
    }
    assert len(texts) == 3


@pytest.mark.parametrize("order", ["exact", "free"])
def test_prompt_tokens_are_counted_with_those_that_were_cached(
    base: BaseModel, order: Order
) -> None:
    with Rollouts(policies(base), root_seed=1, order=order) as rollouts:
        episodes = rollouts.play([match("base", "bot:middle", attempt=n) for n in range(2)])
        read = rollouts.take_prompt_tokens()
        assert rollouts.take_prompt_tokens() == PromptTokens()
    turns = [turn for episode in episodes for turn in episode.trajectories[0].turns]
    assert read.all == sum(len(turn.prompt_ids) for turn in turns)
    # both attempts see the same board first, and the second reads all of it but its last token there
    assert len(turns[0].prompt_ids) - 1 <= read.cached <= read.possible < read.all
    assert 0 < read.in_flight <= 2
    assert read.idle_s > 0


def test_turns_hold_what_was_sampled(base: BaseModel) -> None:
    for episode in played(policies(base), SPECS, root_seed=0):
        for trajectory in episode.trajectories:
            for turn in trajectory.turns:
                if trajectory.policy != "base":
                    assert turn.completion_ids == ()
                    continue
                assert turn.prompt_ids == base.encode_prompt(turn.observation)
                assert turn.reply == base.decode(turn.completion_ids)
                assert len(turn.logprobs) == len(turn.completion_ids) <= 6
                assert all(value <= 0 for value in turn.logprobs)


def test_rewards_of_turns_add_up_to_the_trajectory(base: BaseModel) -> None:
    for episode in played(policies(base), SPECS, root_seed=0):
        for trajectory in episode.trajectories:
            paid = sum(turn.reward for turn in trajectory.turns)
            assert paid == pytest.approx(trajectory.total_reward)
            for name in ("outcome", "format"):
                parts = sum(turn.components.get(name, 0.0) for turn in trajectory.turns)
                assert parts == pytest.approx(trajectory.components[name])
            assert trajectory.components["outcome"] == pytest.approx(trajectory.outcome)


def test_an_episode_replays_in_a_fresh_environment(base: BaseModel) -> None:
    episode = played(policies(base), [match("bot:random", "bot:middle", seed=9)], root_seed=0)[0]
    assert replay(as_transcript(episode)).digest == episode.transcript_sha256


def as_transcript(episode: Episode) -> Transcript:
    turns = sorted(
        ((t.turn_index, tr.seat, t) for tr in episode.trajectories for t in tr.turns),
        key=lambda row: row[0],
    )
    env = make(episode.spec.env_id)
    env.reset(seed=episode.spec.seed)
    steps = []
    for _, seat, turn in turns:
        _, rewards, _, _, infos = env.step({f"player_{seat}": turn.reply})
        steps.append(
            Step(
                replies={seat: turn.reply},
                rewards=tuple(rewards.values()),
                invalid=tuple(info["invalid"] for info in infos.values()),
            )
        )
    return Transcript(
        env_id=episode.spec.env_id,
        options={},
        split="train",
        seed=episode.spec.seed,
        steps=tuple(steps),
        outcomes=tuple(t.outcome for t in episode.trajectories),
        rewards=tuple(t.total_reward for t in episode.trajectories),
        components=tuple(t.components for t in episode.trajectories),
        forfeited=episode.forfeited,
        truncated=False,
        digest=episode.transcript_sha256,
    )


def test_a_fault_of_ours_voids_the_episode_and_the_others_go_on(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from srl_envs.families.board.connect_four import ConnectFour

    original = ConnectFour.apply

    def broken(self: ConnectFour, state: object, actions: object) -> object:
        if self.rows == 5:
            raise SandboxError("the sandbox is gone")
        return original(self, state, actions)  # type: ignore[arg-type]

    monkeypatch.setattr(ConnectFour, "apply", broken)
    bad = MatchSpec(
        env_id="connect_four-v0", options={"rows": 5}, seed=0, split="train",
        seats=("bot:random", "bot:random"),
    )  # fmt: skip
    void, fine = played(policies(base), [bad, match("bot:random", "bot:middle")], root_seed=0)
    assert (void.termination, void.valid) == ("void", False)
    assert "the sandbox is gone" in void.fault
    assert fine.valid


@pytest.mark.parametrize("fails_with", ["raises", "returns nothing"])
def test_a_bot_that_fails_voids_its_own_episode(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch, fails_with: str
) -> None:
    def broken(name: str) -> object:
        def reply(text: str) -> str | None:
            if fails_with == "raises":
                raise KeyError("my table")
            return None

        return reply

    good = ScriptedPolicy.player

    def player(self: ScriptedPolicy, env_id: str, seed: int) -> object:
        return broken(self.bot) if self.bot == "broken" else good(self, env_id, seed)

    monkeypatch.setattr(ScriptedPolicy, "player", player)
    chosen = {**policies(base), "bot:broken": ScriptedPolicy("broken")}
    specs = [match("bot:random", "bot:broken"), match("bot:random", "bot:middle", seed=4)]
    void, fine = played(chosen, specs, root_seed=0)
    assert (void.termination, void.valid) == ("void", False)
    label = "PolicyError: seat 1 raised KeyError: 'my table'"
    assert (void.fault == label) if fails_with == "raises" else ("player_1" in void.fault)
    assert fine.valid
    assert played(policies(base), specs[1:], root_seed=0)[0] == fine


def test_a_prompt_that_does_not_fit_costs_a_turn_and_not_the_run(tmp_path: Path) -> None:
    short = BaseModel.load(build(tmp_path / "short", context=64))
    engine = TransformersEngine(short, SamplingSettings(max_new_tokens=6))
    table: dict[str, Policy] = {"base": ModelPolicy(engine), "bot:random": ScriptedPolicy("random")}
    episode = played(table, [match("base", "bot:random")], root_seed=0)[0]
    assert episode.forfeited == (0,)
    assert {turn.invalid for turn in episode.trajectories[0].turns} == {"malformed"}


def test_unknown_policies_and_wrong_seats_are_refused_at_once(base: BaseModel) -> None:
    with Rollouts(policies(base), root_seed=0) as rollouts:
        with pytest.raises(ConfigError, match="carol"):
            rollouts.play([match("carol", "base")])
        with pytest.raises(ConfigError, match="2 seats"):
            rollouts.play([match("base", "base", "base")])
    with pytest.raises(ConfigError, match="concurrency"):
        Rollouts({}, root_seed=0, concurrency=0)
