"""Hidden information does not show in anything that a seat receives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from srl_envs.core import Game
from srl_envs.errors import IllegalMoveError
from srl_envs.testing.episodes import (
    ConformanceError,
    game_env,
    live_state,
    other_states,
    require,
)

Path = tuple[Any, ...]
"""Keys and indices that lead to a value in an encoded state."""


def check_hidden_information(env_id: str, *, episodes: int = 4) -> None:
    """A seat's view stays the same when everything hidden from it is replaced.

    At each position of random episodes, for each seat, `Game.swap_hidden` takes the hidden parts from
    another episode: the seat's text, its list of legal actions, its default move and the reason for
    which a move is refused must not change. The method itself is held to what the texts show: a value
    that changes what one seat reads, and not another, is hidden from the other, and must be swapped.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: something leaks, or `Game.swap_hidden` leaves out something hidden.
    """
    with game_env(env_id) as env:
        game, swapped = env.game, 0
        for seed in range(episodes):
            env.reset(seed=seed)
            rng = np.random.default_rng(seed)
            others = other_states(env, seed)
            while env.agents:
                state = live_state(env)
                where = f"{env_id}: seed {seed}, turn {env.get_state()['turn'] + 1}"
                for other in others:
                    if env.get_state()["turn"] == 0:
                        _require_covered(where, game, state, other)
                    for seat in range(game.seats):
                        swapped += _require_unseen(where, game, state, other, seat)
                env.step(_legal(env, state, rng))
        declares = type(game).swap_hidden is not Game.swap_hidden
        require(
            bool(swapped) or not declares,
            f"{env_id}: swap_hidden never changes anything: return a state whose hidden parts are "
            f"those of `other`, or do not override it.",
        )


def _legal(env: Any, state: Any, rng: np.random.Generator) -> dict[str, str]:
    moves = {seat: env.game.sample(state, seat, rng) for seat in env.game.to_move(state)}
    return {env.possible_agents[s]: f"<action>{body}</action>" for s, body in moves.items()}


def _require_unseen(where: str, game: Game[Any, Any], state: Any, other: Any, seat: int) -> bool:
    """Compare what ``seat`` gets before and after the swap; True where the swap changed anything."""
    where = f"{where}, seat {seat}"
    rng = np.random.default_rng(seat)
    try:
        swapped = game.swap_hidden(state, seat, other)
        before, after = _told(game, state, seat), _told(game, swapped, seat)
    except Exception as error:
        raise ConformanceError(
            f"{where}: with the hidden parts of another episode the game raises "
            f"{type(error).__name__}: {error}. swap_hidden must return a state that can be played."
        ) from error
    for name, value in before.items():
        require(
            value == after.get(name),
            f"{where}: {name} reveals what is hidden; with other hidden parts it reads differently: "
            f"{_difference(str(value), str(after.get(name)))}",
        )
    if before["who is on move"]:
        for body in (game.sample(state, seat, rng), game.sample(swapped, seat, rng), "nonsense"):
            verdicts = {_refusal(game, it, seat, body) for it in (state, swapped)}
            require(
                len(verdicts) == 1,
                f"{where}: whether and why {body[:60]!r} is refused depends on what is hidden: "
                f"{sorted(verdicts)}.",
            )
    return bool(_plain(game, swapped) != _plain(game, state))


def _told(game: Game[Any, Any], state: Any, seat: int) -> dict[str, Any]:
    on_move = seat in game.to_move(state)
    shown: dict[str, Any] = {"the text": game.observe(state, seat), "who is on move": on_move}
    if on_move:
        legal = game.legal(state, seat)
        shown["the list of legal actions"] = None if legal is None else list(legal)
        shown["the default move"] = game.fallback(state, seat)
    return shown


def _refusal(game: Game[Any, Any], state: Any, seat: int, body: str) -> str:
    try:
        game.parse(state, seat, body)
    except IllegalMoveError as error:
        return str(error)
    return "accepted"


def _require_covered(where: str, game: Game[Any, Any], state: Any, other: Any) -> None:
    """Each value of ``other`` that one seat would read, and another not, is swapped for the latter.

    Only at the opening: later, notes of one seat may be known to all.
    """
    mine, theirs = _plain(game, state), _plain(game, other)
    seats = range(game.seats)
    texts = [game.observe(state, seat) for seat in seats]
    for path, value in _leaves(theirs):
        old = _at(mine, path)
        if old is _MISSING or old == value:
            continue
        try:
            grafted = game.decode(_with(mine, path, value))
            changed = [game.observe(grafted, seat) != texts[seat] for seat in seats]
        except Exception:  # noqa: BLE001 - the value makes no sense there: it shows nothing
            continue
        if not any(changed):
            continue
        for seat in seats:
            if not changed[seat] and str(old) not in texts[seat]:
                swapped = _plain(game, game.swap_hidden(state, seat, other))
                require(
                    _at(swapped, path) != old,
                    f"{where}: another seat reads the value at {list(path)} of the encoded state, "
                    f"seat {seat} does not; so it is hidden from seat {seat}, and swap_hidden(state, "
                    f"{seat}, other) must take it from `other`. If it is not secret, show it to all.",
                )


_MISSING = object()


def _plain(game: Game[Any, Any], state: Any) -> Any:
    return json.loads(json.dumps(game.encode(state)))


def _leaves(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _leaves(value, (*path, index))
    else:
        yield path, data


def _at(data: Any, path: Path) -> Any:
    """The value at ``path``; `_MISSING` without one, or if it is not a leaf."""
    for key in path:
        inside = key in range(len(data)) if isinstance(data, list) else isinstance(data, dict)
        if not inside or (isinstance(data, dict) and key not in data):
            return _MISSING
        data = data[key]
    return _MISSING if isinstance(data, (dict, list)) else data


def _with(data: Any, path: Path, value: Any) -> Any:
    """A copy of ``data`` that has ``value`` at ``path``."""
    fresh = json.loads(json.dumps(data))
    target = fresh
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return fresh


def _difference(before: str, after: str) -> str:
    """The first line that differs, in both."""
    for mine, theirs in zip(before.splitlines(), after.splitlines(), strict=False):
        if mine != theirs:
            return f"{mine[:200]!r} becomes {theirs[:200]!r}."
    return "one goes on where the other ends."
