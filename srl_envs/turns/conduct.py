"""What becomes of replies: read by the grammar, then by the game's own `parse`; tries, default moves, notices
and forfeits of the seats in one episode, and their cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from srl_envs.core import Game
from srl_envs.errors import IllegalMoveError
from srl_envs.turns.grammar import bare_forms, parse_reply
from srl_envs.turns.prompt_header import FORMAT_COST
from srl_envs.turns.seating import missing_action, require_text
from srl_envs.turns.tool_calls import OPEN_CALL, called_body

FORMAT_FLOOR = -0.3
"""The ``format`` component of a seat never falls below this in one episode."""
_SHORT, _MOST = 64, 4096
_bodies: dict[str, str] = {}
"""The bodies of the first `_MOST` replies of at most `_SHORT` characters: moves are few, and come again."""


class Conduct:
    """What has become of the seats' replies; every list has one entry per seat.

    Args:
        seats: their number.
        attempts: replies in one turn before a move is played for the seat.
        forfeit_after: default moves that forfeit the game.
    """

    __slots__ = (
        "attempts", "defaults", "forfeit_after", "format", "moved", "notices", "retrying", "tries",
    )  # fmt: skip

    def __init__(self, seats: int, attempts: int, forfeit_after: int) -> None:
        self.attempts, self.forfeit_after = attempts, forfeit_after
        self.tries = [0] * seats
        """Refused replies of this turn."""
        self.retrying = False
        """Whether any seat has refused replies in its turn."""
        self.defaults = [0] * seats
        """Default moves of the episode."""
        self.moved: set[int] = set()
        """Seats that made a move of their own."""
        self.format = [0.0] * seats
        """The ``format`` component so far."""
        self.notices = [""] * seats
        """Why the last reply was refused, as it stands behind the observation; "" for no reason."""

    def charge(self, seat: int) -> float:
        """What one more refused reply costs, in reward units (<= 0)."""
        before = self.format[seat]
        self.format[seat] = max(FORMAT_FLOOR, before - FORMAT_COST)
        return self.format[seat] - before

    def may_retry(self, seat: int, problem: str) -> bool:
        """Count a refused reply and write its notice; False where the seat's tries are used up."""
        self.tries[seat] += 1
        self.retrying = True
        left = self.attempts - self.tries[seat]
        if left <= 0:
            return False
        self.notices[seat] = (
            f"\n\nYour last reply was not accepted: {problem.rstrip('.')}. "
            f"Tries left for this turn: {left}."
        )
        return True

    def may_default(self, seat: int) -> bool:
        """Count a default move; False where it is one too many, so that the seat forfeits."""
        self.defaults[seat] += 1
        return self.defaults[seat] < self.forfeit_after

    def clear(self, seats: Iterable[int]) -> None:
        """The turn of these seats is over: forget its refused replies."""
        for seat in seats:
            self.tries[seat], self.notices[seat] = 0, ""
        self.retrying = any(self.tries)

    def idle(self) -> tuple[int, ...]:
        """Seats for which only default moves were played: short games forfeit them as well."""
        if not any(self.defaults):  # as in most episodes
            return ()
        return tuple(s for s, n in enumerate(self.defaults) if n and s not in self.moved)

    def encode(self) -> dict[str, Any]:
        """The tallies as JSON values."""
        return {
            "tries": list(self.tries),
            "fallbacks": list(self.defaults),
            "moved": sorted(self.moved),
            "format": list(self.format),
            "errors": list(self.notices),
        }

    def decode(self, data: Mapping[str, Collection[Any]]) -> None:
        """Restore the tallies from the values of `encode`."""
        self.tries, self.defaults = list(data["tries"]), list(data["fallbacks"])
        self.moved, self.format = set(data["moved"]), list(data["format"])
        self.notices, self.retrying = list(data["errors"]), any(data["tries"])


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
            body, reason = _read(game, reply)
            if body is None:
                refused[seat] = Refusal("malformed", str(reason))
                continue
            if len(reply) <= _SHORT and len(_bodies) < _MOST and OPEN_CALL not in reply:
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


def _read(game: Game[Any, Any], reply: str) -> tuple[str, None] | tuple[None, str]:
    """The body of a reply's action block, or of its tool call where the game's moves are calls."""
    if game.tools and OPEN_CALL in reply:
        found = called_body(reply, game.tools, game.max_action_chars)
        if found is not None:
            return found
    return parse_reply(reply, game.max_action_chars)


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
