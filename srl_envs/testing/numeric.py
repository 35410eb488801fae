"""The numeric twin plays the text game, offers its legal moves, and holds the same facts as the text."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_envs.core import Game
from srl_envs.errors import IllegalMoveError
from srl_envs.parallel import GameEnv
from srl_envs.registry import spec
from srl_envs.testing.episodes import game_env, live_state, other_states, require
from srl_envs.wrappers.numeric import Features, NumericParallel, Reading

_TRIED = 40
"""Actions of each kind, offered and not, that are given to `Game.parse` at each position."""


def check_numeric(env_id: str, *, episodes: int = 3, options: dict[str, Any] | None = None) -> None:
    """At each position of random episodes the twin is held to the text view.

    The same actions pay the same; the mask holds the legal moves (those of `Game.legal` where they are
    listed, else what `Game.parse` accepts); arrays fit their spaces; and they stay the same when all
    that the seat may not know is another (`Game.swap_hidden`). Applies where `EnvSpec.numeric` is set.

    Args:
        env_id: a registered id.
        episodes: how many are played.
        options: of the game.

    Raises:
        ConformanceError: what differs, and where.
    """
    if not spec(env_id).numeric:
        return
    with game_env(env_id, **options or {}) as env, game_env(env_id, **options or {}) as text:
        twin = NumericParallel(env)
        actions = twin.features.actions
        distinct = len(set(actions)) == len(actions)
        require(distinct, f"{env_id}: two numbers of the twin are the same action.")
        for seed in range(episodes):
            _require_episode(env_id, twin, text, seed)


def _require_episode(env_id: str, twin: NumericParallel, text: GameEnv, seed: int) -> None:
    """One episode of random actions, played in the twin and in the text view."""
    env, features = twin.env, twin.features
    rng = np.random.default_rng(seed)
    arrays, _ = twin.reset(seed=seed)
    text.reset(seed=seed)
    others = other_states(env, seed)
    while twin.agents:
        actions = {}
        turn = f"{env_id}: seed {seed}, turn {env.get_state()['turn'] + 1}"
        for seat, agent in enumerate(twin.possible_agents):
            where = f"{turn}, seat {seat}"
            fits = twin.observation_space(agent).contains(arrays[agent])
            require(fits, f"{where}: the arrays do not fit their space.")
            values = arrays[agent]["observation"]
            mask = arrays[agent]["action_mask"].astype(bool)
            position = _Position(where, env.game, live_state(env), seat)
            if position.on_move():
                _require_legal(position, features, mask)
                _require_unseen(position, features, Reading(values, mask), others)
                actions[agent] = int(rng.choice(np.flatnonzero(mask)))
            else:
                idle = not mask.any() and not values.any()
                require(idle, f"{where}: the twin is not empty, though the seat is not on move.")
        expected = text.step({a: features.reply(n) for a, n in actions.items()})
        arrays, *got, _ = twin.step(actions)
        require(tuple(got) == expected[1:4], f"{turn}: the twin pays {got[0]}.")


class _Position(NamedTuple):
    """A seat's position in the text game and in its twin."""

    where: str
    game: Game[Any, Any]
    state: Any
    seat: int

    def on_move(self) -> bool:
        return self.seat in self.game.to_move(self.state)

    def accepts(self, body: str) -> bool:
        try:
            self.game.parse(self.state, self.seat, body)
        except IllegalMoveError:
            return False
        return True


def _require_legal(position: _Position, features: Features, mask: NDArray[np.bool_]) -> None:
    """The mask holds the listed moves; without a list, a sample of both kinds is tried."""
    require(bool(mask.any()), f"{position.where}: the mask offers nothing.")
    legal = position.game.legal(position.state, position.seat)
    if legal is not None:
        offered_bodies = {features.actions[number] for number in np.flatnonzero(mask)}
        differ = sorted(offered_bodies ^ set(legal))
        require(not differ, f"{position.where}: mask and legal actions differ by {differ[:5]}.")
    rng = np.random.default_rng(position.seat)
    for offered in (True, False):
        numbers = rng.permutation(np.flatnonzero(mask == offered))[:_TRIED]
        for body in (features.actions[number] for number in numbers):
            require(
                position.accepts(body) == offered,
                f"{position.where}: the mask has {offered} for {body!r}, and the game {not offered}.",
            )


def _require_unseen(
    position: _Position, features: Features, reading: Reading, others: list[Any]
) -> None:
    """The arrays are the same with the hidden parts of other episodes."""
    where, game, state, seat = position
    for other in others:
        again = features.read(game.observe(game.swap_hidden(state, seat, other), seat))
        same = all(np.array_equal(a, b) for a, b in zip(reading, again, strict=True))
        require(same, f"{where}: what is hidden from the seat changes the arrays.")
