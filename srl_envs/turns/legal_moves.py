"""Read the replies of the seats on move: the grammar first, then the game's own `parse`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from srl_envs.core import Game
from srl_envs.errors import IllegalMoveError
from srl_envs.turns.grammar import bare_forms, parse_reply
from srl_envs.turns.seating import missing_action, require_text

_SHORT, _MOST = 64, 4096
_bodies: dict[str, str] = {}
"""The bodies of the first `_MOST` replies of at most `_SHORT` characters: moves are few, and come again."""


class Refusal(NamedTuple):
    """Why a reply is not a legal move."""

    label: str
    """``malformed`` or ``illegal``."""
    problem: str
    """Message for the seat that replied."""


def read_moves(
    game: Game[Any, Any],
    state: Any,
    on_move: Sequence[int],
    agents: Sequence[str],
    replies: Mapping[str, str],
) -> tuple[dict[int, Any], dict[int, str], dict[int, Refusal]]:
    """Read one reply per seat on move; nothing changes, so a caller may try again.

    Args:
        game: the rules.
        state: of the game.
        on_move: the seats whose replies are read.
        agents: names of all seats.
        replies: by name; those of other seats are not looked at.

    Returns:
        By seat: the actions as the game's `parse` gives them, the action bodies that they were read
        from, and the refusals of the other seats.

    Raises:
        InvalidActionError: a seat on move has no reply, or one that is not text.
    """
    actions: dict[int, Any] = {}
    bodies: dict[int, str] = {}
    refused: dict[int, Refusal] = {}
    longest = game.max_action_chars
    for seat in on_move:
        agent = agents[seat]
        try:
            reply = replies[agent]
        except (KeyError, TypeError):
            raise missing_action(agent, seat, replies) from None
        if type(reply) is not str:
            require_text(agent, reply)
        body = _bodies.get(reply)
        if body is None or len(body) > longest:
            body, reason = parse_reply(reply, longest)
            if body is None:
                refused[seat] = Refusal("malformed", str(reason))
                continue
            if len(reply) <= _SHORT and len(_bodies) < _MOST:
                _bodies[reply] = body
        try:
            actions[seat] = game.parse(state, seat, body)
            bodies[seat] = body
        except IllegalMoveError as error:
            meant = _meant(game, state, seat, body)
            if meant is None:
                refused[seat] = Refusal("illegal", str(error))
            else:
                bodies[seat], actions[seat] = meant
    return actions, bodies, refused


def _meant(game: Game[Any, Any], state: Any, seat: int, body: str) -> tuple[str, Any] | None:
    """The legal move that a refused body names with marks around it or in another case."""
    forms = list(bare_forms(body))
    for form in forms:
        try:
            return form, game.parse(state, seat, form)
        except IllegalMoveError:
            continue
    wanted = {form.casefold() for form in (body, *forms)}
    listed = [move for move in game.legal(state, seat) or () if move.casefold() in wanted]
    return (listed[0], game.parse(state, seat, listed[0])) if len(listed) == 1 else None
