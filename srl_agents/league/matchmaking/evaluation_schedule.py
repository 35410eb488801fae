"""Matches on the eval split: looks at learners, final tables, promotion gates and payoffs between snapshots.

Pure functions of the games, of who may sit where, and of what is asked for. Nothing here depends on results,
so no rating rests on matches that were chosen by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement

from srl_agents.league.agents import lineage
from srl_agents.league.matchmaking.arenas import Arena, Arenas
from srl_agents.records import MatchSpec, Purpose, label_of

FINAL_SEEDS = 1_000_000
"""Eval seeds from here on are kept for final tables; looks during training use those from 0."""
FINAL = "eval/final"
"""Schedule of the final table; samplers never see it."""
GATE_SEEDS, PAYOFF_SEEDS = 2_000_000, 3_000_000
"""Eval seeds from here on are for promotion gates, and for payoffs between snapshots."""
Mate = Callable[[str, int], str | None]
"""(agent, a seat of its side that it may not hold) -> who holds it; None where there is no such agent."""


class EvaluationSchedule:
    """Mirrored matches of any agents in the games of a league.

    Args:
        arenas: the games.
        held: lineage -> seats that it may hold; all seats if absent.
        mate: completes the side of an agent that may hold only some of a team's seats; without it such an
            agent is not measured.
    """

    def __init__(
        self,
        arenas: Arenas,
        held: Mapping[str, Sequence[int]],
        mate: Mate = lambda agent, seat: None,
    ) -> None:
        self._arenas = arenas
        self._held = {name: tuple(seats) for name, seats in held.items()}
        self._mate = mate

    def may_sit(self, agent: str, seat: int) -> bool:
        """Whether an agent may hold a seat; agents that are not learners may hold any."""
        return seat in self._held.get(lineage(agent), (seat,))

    def matches(
        self,
        schedule: str,
        pairings: Sequence[tuple[str, str]],
        seeds: range,
        purpose: Purpose = "eval",
        *,
        arena: Arena | None = None,
    ) -> list[MatchSpec]:
        """Mirrored matches in one game, or in all: every pairing on every seed in all seat rotations.

        With more than two seats, the first agent of a pairing holds one seat and the second the
        others; with teams, each holds every team's seats in turn, with mates in those that it may not hold.
        Two agents of one side cannot be distinguished: their pairing, and matches that another
        pairing has, are left out. In a game of one seat each agent of the pairings plays each seed once, by
        itself.
        """
        seen: set[tuple[str, int, tuple[str, ...]]] = set()

        def is_new(game: Arena, seed: int, seats: tuple[str, ...]) -> bool:
            if not (game.teams and self._held):
                return True
            match = game.title, seed, seats
            known = match in seen
            seen.add(match)
            return not known

        return [
            MatchSpec(
                env_id=game.env_id,
                options=game.options,
                seed=seed,
                split="eval",
                seats=seats,
                learner_seats=(),
                purpose=purpose,
                cluster=f"eval/{seed}",
                schedule=schedule,
                number=number,
                teams=game.teams,
            )
            for game in (self._arenas.all if arena is None else (arena,))
            for number, (a, b) in enumerate(_by_itself(pairings) if game.alone else pairings)
            for seed in seeds
            for turn in ((0,) if a == b else game.turns)
            if self._may_all_sit(seats := self._lineup(game, a, b, turn))
            and is_new(game, seed, seats)
        ]

    def round_robin(
        self, schedule: str, agents: Sequence[str], pairs: int, *, arena: Arena | None = None
    ) -> list[MatchSpec]:
        """The final table of one game, or of all: every two agents meet in ``pairs`` mirrored pairs on
        fresh eval seeds.

        In cooperative games every agent meets itself too, for the table's diagonal. In a game of one seat
        every agent has all of the seeds to itself.
        """
        seeds = range(FINAL_SEEDS, FINAL_SEEDS + pairs)
        return [
            match
            for game in (self._arenas.all if arena is None else (arena,))
            for match in self.matches(schedule, _all_pairings(game, agents), seeds, arena=game)
        ]

    def gate(self, arena: Arena, candidate: str, opponent: str, pairs: range) -> list[MatchSpec]:
        """Mirrored pairs of a promotion gate in one game; they never feed a rating. In a game of one seat
        each of the two plays by itself."""
        seeds = range(GATE_SEEDS + pairs.start, GATE_SEEDS + pairs.stop)
        schedule = f"gate/{label_of(candidate)}"
        return self.matches(schedule, [(candidate, opponent)], seeds, "gate", arena=arena)

    def payoffs(self, version: str, pool: Sequence[str], pairs: int) -> list[MatchSpec]:
        """Mirrored pairs of a new snapshot against the others of a pool in every game that is trained and
        has others to meet, for `payoff_NN`."""
        others = [(version, other) for other in pool if other != version]
        seeds = range(PAYOFF_SEEDS, PAYOFF_SEEDS + pairs)
        schedule = f"payoff/{label_of(version)}"
        return [
            match
            for arena in self._arenas.met_in
            for match in self.matches(schedule, others, seeds, "payoff", arena=arena)
        ]

    def _lineup(self, arena: Arena, a: str, b: str, turn: int) -> tuple[str, ...]:
        """Who sits where; empty where two sides would be alike though two agents were asked for."""
        if not arena.teams:
            return tuple(a if seat == turn else b for seat in range(arena.seats))
        first = arena.teams[turn]
        seats = tuple(a if team == first else b for team in arena.teams)
        if self._may_all_sit(seats):
            return seats
        whole = tuple(self._completed(arena, seats, seat) for seat in range(arena.seats))
        one, other = (
            {name for name, t in zip(whole, arena.teams, strict=True) if (t == first) is own}
            for own in (True, False)
        )
        return () if a != b and one == other else whole

    def _completed(self, arena: Arena, seats: Sequence[str], seat: int) -> str:
        """The agent of a seat, or a mate of it where it may hold another seat of the team."""
        name, team = seats[seat], arena.teams[seat]
        own = [k for k in range(arena.seats) if arena.teams[k] == team and self.may_sit(name, k)]
        return name if not own or seat in own else self._mate(name, seat) or name

    def _may_all_sit(self, seats: Sequence[str]) -> bool:
        return bool(seats) and all(self.may_sit(name, seat) for seat, name in enumerate(seats))


def _by_itself(pairings: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Every agent of some pairings, once, paired with itself."""
    return [(name, name) for name in dict.fromkeys(name for pair in pairings for name in pair)]


def _all_pairings(arena: Arena, agents: Sequence[str]) -> list[tuple[str, str]]:
    """Every two agents; with itself where all are paid alike, and both ways where one sits against many."""
    if arena.alone:
        return _by_itself([(name, name) for name in agents])
    if arena.mode == "cooperative":
        pairings = list(combinations_with_replacement(agents, 2))
    else:
        pairings = list(combinations(agents, 2))
    if arena.seats > 2 and not arena.teams:
        pairings += [(b, a) for a, b in pairings if a != b]  # one seat, and all but one
    return pairings
