"""A game's right answers reach the judges of a recipe, and no other code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

import pytest

from srl_agents.agents.players import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.records import Episode, MatchSpec, Turn
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.record_frames import read_record
from srl_envs import list_envs, make
from srl_envs.rewards import Rubric

NUMBER = {"parts": {"right": {"kind": "answer", "settings": {"extract": ["plain"]}}}}
PROGRAM = {"parts": {"right": {"kind": "code", "settings": {"tests": "calls", "partial": True}}}}


def played(env_id: str, seats: tuple[str, ...], options: Mapping[str, Any] = {}) -> Episode:
    """Scripted seats count as learning, so that their turns are kept as those of learners are."""
    spec = MatchSpec(
        env_id=env_id,
        options=dict(options),
        seed=3,
        split="train",
        seats=seats,
        learner_seats=tuple(range(len(seats))),
    )
    bots: dict[str, Policy] = {name: ScriptedPolicy(name) for name in seats}
    with Rollouts(bots, root_seed=0, references=True) as rollouts:
        (episode,) = rollouts.play([spec])
    return episode


def judged(rubric: Mapping[str, Any], turn: Turn) -> float | None:
    return Rubric.from_config(rubric)(turn.answer or "", **turn.references)


def test_the_matcher_agrees_with_the_duel_about_every_answer() -> None:
    episode = played("math_duel-v0", ("middle", "weak"), {"problems": 6})

    points = [0.0, 0.0]
    for turns in zip(*(t.turns for t in episode.trajectories), strict=True):
        right = [judged(NUMBER, turn) == 1.0 for turn in turns]
        stakes = [
            int(turn.reply.partition(";")[2].partition("<")[0]) if turn.answer else 0
            for turn in turns
        ]
        for seat in range(2):
            bonus = right[seat] and not right[1 - seat]
            points[seat] += stakes[seat] + bonus if right[seat] else -stakes[seat]
    assert (points[0] - points[1]) / (7 * 6) == pytest.approx(episode.trajectories[0].outcome)
    assert points[0] != points[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "seats", "statistic"),
    [
        ("code_duel-v0", ("middle", "empty"), "tests_passed"),
        pytest.param("spec_golf-v0", ("middle", "random"), "right", marks=pytest.mark.slow),
    ],
)
def test_the_tests_of_a_program_come_to_what_the_game_found(
    env_id: str, seats: tuple[str, ...], statistic: str
) -> None:
    episode = played(env_id, seats, {"families": ["run_length"], "difficulty": 1})

    for trajectory in episode.trajectories:
        asked = [turn for turn in trajectory.turns if turn.references]
        passed = [judged(PROGRAM, turn) for turn in asked]
        found = [share if statistic == "tests_passed" else float(share == 1) for share in passed]
        assert sum(float(f or 0) for f in found) / len(found) == pytest.approx(
            trajectory.components[statistic]
        )


def test_a_turn_that_answers_no_question_has_no_reference() -> None:
    episode = played("code_duel-v0", ("middle", "middle"))
    write, attack = episode.trajectories[0].turns
    assert set(write.references) == {"calls"}
    assert write.answer is not None
    assert write.answer.startswith("```python\n")
    assert attack.references == {}
    assert attack.answer is None


def test_references_travel_between_processes() -> None:
    turn = played("math_duel-v0", ("middle", "weak")).trajectories[0].turns[0]
    assert set(turn.references) == {"answer"}
    assert read_record(Turn, json.loads(json.dumps(asdict(turn)))) == turn


@pytest.mark.slow
def test_nothing_is_kept_where_nobody_asks_and_prompts_are_the_same() -> None:
    base = BaseModel.load("tiny", device="cpu")
    spec = MatchSpec(
        env_id="math_duel-v0", seed=1, split="train", seats=("base", "base"), learner_seats=(0,)
    )
    episodes = []
    for references in (False, True):
        engine = TransformersEngine(base, SamplingSettings(max_new_tokens=6))
        with Rollouts(
            {"base": ModelPolicy(engine)}, root_seed=0, references=references
        ) as rollouts:
            episodes += rollouts.play([spec])
    without, asked = episodes

    assert without.transcript_sha256 == asked.transcript_sha256
    for seat in range(2):
        pairs = zip(without.trajectories[seat].turns, asked.trajectories[seat].turns, strict=True)
        for bare, kept in pairs:
            assert bare.references == {}
            assert bool(kept.references) == (seat == 0)  # the other seat does not learn
            assert bare.prompt_ids == kept.prompt_ids
            assert bare.observation == kept.observation


@pytest.mark.parametrize("env_id", list_envs())
def test_references_have_the_names_that_the_game_says_and_no_player_is_told(env_id: str) -> None:
    env: Any = make(env_id)
    with closing(env):
        observations, infos = env.reset(seed=5)
        names = set(env.game.reference_names)
        references = [env.references(agent) for agent in env.possible_agents]
        if names and not any(references):  # the first turn asks for something else than an answer
            env.action_space(env.possible_agents[0]).seed(5)
            env.step({agent: env.action_space(agent).sample() for agent in env.agents})
            references = [env.references(agent) for agent in env.possible_agents]
        assert all(set(found) <= names for found in references)
        assert any(found for found in references) or not names
        assert json.loads(json.dumps(references)) == references
        again = env.reset(seed=5)
        assert again == (observations, infos)
        for info in infos.values():
            assert not names & set(info)
