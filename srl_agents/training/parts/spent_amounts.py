"""What an agent behind an endpoint was asked: requests, tokens and cost, by match and game."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from srl_agents.records import Served


@dataclass(frozen=True, slots=True)
class Amount:
    """Requests and what they took."""

    requests: int = 0
    tokens: int = 0
    """Read and written, thoughts included."""
    cost: float = 0.0
    """In the currency of the price file."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.requests + other.requests, self.tokens + other.tokens, self.cost + other.cost
        )

    def __sub__(self, other: Amount) -> Amount:
        return self + other.times(-1)

    def times(self, count: int) -> Amount:
        """So many of it."""
        return Amount(count * self.requests, count * self.tokens, count * self.cost)

    def at_least(self, other: Amount) -> Amount:
        """The larger of both, each by itself."""
        return Amount(
            max(self.requests, other.requests),
            max(self.tokens, other.tokens),
            max(self.cost, other.cost),
        )


NOTHING = Amount()


def total(amounts: Iterable[Amount]) -> Amount:
    """Their sum."""
    return sum(amounts, NOTHING)


@dataclass(kw_only=True, slots=True)
class MatchSpent:
    """What one agent was asked in one match."""

    game: str
    """Name of the game; empty in files of earlier releases."""
    now: Amount
    """When it was last played; the most that it can be, until then."""
    before: Amount = NOTHING
    """When it was played earlier, beyond what a journal answers now."""
    open: bool = True
    """Whether the match was still open when this was written."""

    @property
    def all(self) -> Amount:
        """Whenever it was played."""
        return self.now + self.before


@dataclass(kw_only=True, slots=True)
class Spent:
    """What one agent was asked in this run."""

    counted: dict[str, Amount] = field(default_factory=dict)
    """Game -> what was asked, as far as the run counts it."""
    dearest: Amount = Amount(requests=1)
    """What one reply is taken to take at most; raised where one took more."""
    matches: dict[str, MatchSpent] = field(default_factory=dict)
    """Match id -> what was really asked, runs that were killed included."""
    lost: int = 0
    """Requests that were sent in vain, as far as they are recorded."""

    def counted_in(self, game: str = "") -> Amount:
        """As far as the run counts it, in one game or in all."""
        return self.counted.get(game, NOTHING) if game else total(self.counted.values())

    def asked_in(self, game: str = "") -> Amount:
        """In one game or in all, runs that were killed included; what was sent in vain, in whichever game, as
        dear as a reply can be."""
        played = (own.all for own in self.matches.values() if game in ("", own.game))
        return total(played) + self.dearest.times(self.lost)

    def count(self, game: str, amount: Amount) -> None:
        """Count more, or less."""
        self.counted[game] = self.counted.get(game, NOTHING) + amount

    def count_all(self) -> None:
        """Count what was really asked."""
        self.counted = {"": self.dearest.times(self.lost)}
        for own in self.matches.values():
            self.count(own.game, own.all)

    def state(self) -> dict[str, Any]:
        """What the run has counted, for its checkpoint."""
        return {
            "games": {game: as_json(amount) for game, amount in self.counted.items()},
            "dearest": as_json(self.dearest),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Count on from a checkpoint."""
        games = state.get("games", {"": state})
        self.counted = {game: _amount(own) for game, own in games.items()}
        self.dearest = _one_reply(state["dearest"], self.dearest)

    def as_json(self) -> dict[str, Any]:
        """For the run's folder."""
        games = sorted({own.game for own in self.matches.values()} - {""})
        return {
            **as_json(self.asked_in()),
            "games": {
                game: as_json(total(own.all for own in self.matches.values() if own.game == game))
                for game in games
            },
            "dearest": as_json(self.dearest),
            "lost": self.lost,
            "matches": {
                match_id: {
                    "game": own.game,
                    **as_json(own.now),
                    "before": as_json(own.before),
                    "open": own.open,
                }
                for match_id, own in self.matches.items()
            },
        }


def read_spent(kept: Mapping[str, Any] | None, first: Amount) -> Spent:
    """What an agent was asked in a run that is continued; nothing is counted until a checkpoint is loaded.

    Args:
        kept: from the run's folder, where it has any.
        first: what one reply takes at most, by the limits of the agent.
    """
    if kept is None:
        return Spent(dearest=first)
    return Spent(
        dearest=_one_reply(kept["dearest"], first),
        matches={match_id: _match(own) for match_id, own in kept["matches"].items()},
    )


def taken_by(served: Served | None, most: Amount) -> Amount:
    """One reply's; tokens that the endpoint does not report are as many as a reply can have."""
    if served is None:
        return Amount(requests=1)
    tokens = most.tokens
    if served.prompt_tokens is not None and served.completion_tokens is not None:
        tokens = served.prompt_tokens + served.completion_tokens
    return Amount(1, tokens, served.cost or 0.0)


def as_json(amount: Amount) -> dict[str, float]:
    """Its parts by name."""
    return {"requests": amount.requests, "tokens": amount.tokens, "cost": amount.cost}


def _amount(values: Mapping[str, Any]) -> Amount:
    return Amount(values["requests"], values.get("tokens", 0), values["cost"])


def _one_reply(value: Any, first: Amount) -> Amount:
    """Of one reply; files of earlier releases have its cost only."""
    return _amount(value) if isinstance(value, dict) else Amount(1, first.tokens, value)


def _match(own: Mapping[str, Any]) -> MatchSpent:
    before = own.get("before", 0)
    if not isinstance(before, dict):  # of an earlier release
        before = {"requests": before, "cost": own.get("cost_before", 0.0)}
    return MatchSpent(
        game=own.get("game", ""), now=_amount(own), before=_amount(before), open=own["open"]
    )
