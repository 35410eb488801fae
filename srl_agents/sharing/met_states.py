"""States that several learners met with the same observation, and what each wrote and got there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from srl_agents.credit.returns import rewards_to_go
from srl_agents.credit.settings import CreditSettings
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn, canonical_json
from srl_agents.sharing.capabilities import Place
from srl_agents.sharing.hacpo import points

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class MetTurn:
    """One reply of a learner at a state, and what followed."""

    learner: str
    turn: Turn
    reward: float
    """From the turn on, as credit's settings count it."""


@dataclass(frozen=True, slots=True)
class MetState:
    """A state, and the replies of all learners that met it, in the order in which they were played."""

    place: Place
    turns: list[MetTurn] = field(default_factory=list)


def met_states(
    episodes: Sequence[Episode],
    players: Mapping[str, str],
    game_of: Callable[[MatchSpec], str],
    credits: Mapping[str, CreditSettings],
    *,
    remembers: bool,
) -> list[MetState]:
    """Learners' turns by state; turns that teach nothing are left out.

    Two turns are at one state where game, options, seat, number of the seat's turn, observation and kind of
    opponents are equal, and with a memory in the prompt the seat's earlier turns.

    Args:
        episodes: of one update; those on evaluation seeds and void ones give nothing.
        players: policy version id -> learner, of the versions that learn.
        game_of: name of a match's game.
        credits: game -> its credit settings, which decide what a turn is paid.
        remembers: whether prompts show earlier turns.
    """
    states: dict[Key, MetState] = {}
    for episode, trajectory in _played(episodes, players):
        spec, seat = episode.spec, trajectory.seat
        place = game_of(spec), seat
        situation = *place, canonical_json(spec.options), _opponents(spec, seat)
        rewards = turn_rewards(trajectory, credits[place[0]])
        history: tuple[tuple[str, str], ...] = ()
        for number, (turn, reward) in enumerate(zip(trajectory.turns, rewards, strict=True)):
            key = *situation, number, turn.observation, history
            if turn.prompt_ids and turn.completion_ids and not turn.masked:
                met = MetTurn(players[trajectory.policy], turn, reward)
                states.setdefault(key, MetState(place)).turns.append(met)
            if remembers:
                history = (*history, (turn.observation, turn.reply))
    return [*states.values()]


def earned_points(
    episodes: Sequence[Episode], players: Mapping[str, str], game_of: Callable[[MatchSpec], str]
) -> dict[str, dict[Place, list[float]]]:
    """Points of whole episodes, by learner, game and seat; arguments as of `met_states`."""
    earned: dict[str, dict[Place, list[float]]] = {name: {} for name in players.values()}
    for episode, trajectory in _played(episodes, players):
        place = game_of(episode.spec), trajectory.seat
        own = earned[players[trajectory.policy]].setdefault(place, [])
        own.append(points(trajectory.total_reward))
    return earned


def turn_rewards(trajectory: Trajectory, credit: CreditSettings) -> list[float]:
    """What each turn is worth: the episode's reward, or at level ``turn`` what was paid from it on."""
    turns, total = trajectory.turns, trajectory.total_reward
    if credit.level == "episode" or not turns:
        return [total] * len(turns)
    paid = np.array([[turn.reward for turn in turns]])
    paid[0, -1] += total - paid.sum()  # terms of the whole episode come with its last turn
    to_go = rewards_to_go(paid, np.ones_like(paid, dtype=bool), discount=credit.discount)
    return [float(value) for value in to_go[0]]


def _played(
    episodes: Sequence[Episode], players: Mapping[str, str]
) -> list[tuple[Episode, Trajectory]]:
    """Seats that learn in valid training episodes."""
    return [
        (episode, episode.trajectories[seat])
        for episode in episodes
        if episode.valid and episode.spec.split == "train"
        for seat in episode.spec.learner_seats
        if episode.trajectories[seat].policy in players
    ]


def _opponents(spec: MatchSpec, seat: int) -> tuple[str, ...]:
    """What kind of opponents a seat has; bots and agents outside the league by name."""
    if spec.purpose not in ("bot", "agent"):
        return (spec.purpose,)
    return tuple(name for place, name in enumerate(spec.seats) if place != seat)
