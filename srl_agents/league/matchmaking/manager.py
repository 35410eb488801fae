"""Opponents in training: a league of learners, their frozen versions, and bots.

Every schedule is a function of (league seed, position): asking twice, or after a crash, gives the
same matches. What may change the answer, the pool of snapshots and the results so far, is the
league's `state`: its *revision*, which advances with every update and travels with the checkpoint.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from srl_agents.league.agents import lineage, live_key
from srl_agents.league.curricula import CurriculumSettings, FixedShares
from srl_agents.league.matchmaking.arenas import Arena, Arenas
from srl_agents.league.matchmaking.evaluation_schedule import FINAL, EvaluationSchedule
from srl_agents.league.matchmaking.lessons import LessonPlan, Lessons
from srl_agents.league.matchmaking.pair_record import (
    PairRecord,
    expected_scores,
    mean_points,
    seat_points,
)
from srl_agents.league.ratings.intervals import Floats
from srl_agents.league.retention import kept
from srl_agents.league.sampling import find_sampler, pfsp
from srl_agents.league.settings import ExploiterSettings, LearnerRole, OpponentSettings
from srl_agents.records import Episode, MatchSpec, Purpose, WeightVersion
from srl_envs.row_seeds import naming_rows

BEATEN_AT = 0.7
"""Points per game against every main at which an exploiter has done its work, as in AlphaStar's league."""
RESET_CHANCE = 0.25
"""Chance that a league exploiter starts again when it is frozen, as there; a main exploiter always does."""
FORGOTTEN, UNBEATEN, TOO_HARD = 0.7, 0.3, 0.1
"""Points per game: below the first an old version counts as forgotten, below the second an exploiter
still wins, below the third a main teaches its exploiter nothing."""
BOT = "bot:"
_DECAY = 0.998
"""Weight of a learner's earlier results after each further one (`benchmarks.league.samplers`)."""
_STARTS = 13
"""Last word of the seed that draws start states of learners that meet the same ones."""


class League:
    """Schedules training and evaluation matches.

    Args:
        arenas: the games.
        versions: learner -> its version at the beginning, in training order.
        starts: learner -> agent id of what it began as (its base), which it is compared with.
        opponents: how training opponents are drawn.
        seed: root of all schedules.
        roles: learner -> role; ``main`` by default.
        exploiters: when exploiters are frozen and start again.
        held: learner -> seats that it and its past may hold; all seats if absent.
        curriculum: which games are trained how much; by their weights if absent.
        plans: of learners with games or a curriculum of their own.
        alike: all learners meet the same start states and kinds of opponents.
    """

    def __init__(
        self,
        *,
        arenas: Sequence[Arena],
        versions: Mapping[str, WeightVersion],
        starts: Mapping[str, str],
        opponents: OpponentSettings,
        seed: int,
        roles: Mapping[str, LearnerRole] | None = None,
        exploiters: ExploiterSettings | None = None,
        held: Mapping[str, Sequence[int]] | None = None,
        curriculum: CurriculumSettings | None = None,
        plans: Mapping[str, LessonPlan] | None = None,
        alike: bool = False,
    ) -> None:
        self.arenas = Arenas(arenas)
        self._alike = alike
        self.versions: dict[str, WeightVersion] = dict(versions)
        """Learner -> its present version; its trainer updates the entry."""
        self.learners = tuple(versions)
        self._starts = dict(starts)
        self.starts = tuple(dict.fromkeys(starts.values()))
        """Agents that learners began as, each once."""
        self.opponents = opponents
        self.seed = seed
        given = roles or {}
        self.roles: dict[str, LearnerRole] = {
            name: given.get(name, "main") for name in self.learners
        }
        self.exploiters = exploiters or ExploiterSettings()
        self._held = {name: tuple(seats) for name, seats in (held or {}).items()}
        self.evaluation = EvaluationSchedule(self.arenas, self._held, self._mate)
        """Matches on the eval split."""
        self.mains = tuple(name for name in self.learners if self.roles[name] == "main")
        self.past: list[str] = list(self.starts)
        self.best: dict[str, str] = {name: self._starts[name] for name in self.learners}
        """Last version of each learner that passed its gate, or its start."""
        self.lessons = Lessons(self.arenas, curriculum or FixedShares(), self.learners, seed, plans)
        """Draws the games of training."""
        self._games = self._no_games()
        self._cells = {arena.title: PairRecord() for arena in arenas}
        self._ordinals: dict[str, int] = {}
        self._frozen_at: dict[str, int] = dict.fromkeys(self.learners, 0)
        self._counted: set[str] = set()
        self.gone: set[tuple[str, str]] = set()
        """(agent, game) of agents that are met no more there."""
        self._choosers = {
            arena.title: find_sampler(own.past_sampler, own.sampler_options)
            for arena, own in ((arena, arena.opponents or opponents) for arena in arenas)
        }

    def live(self, learner: str) -> str:
        """Agent id of a learner's present version."""
        return str(self.versions[learner])

    def trained_by(self, learner: str) -> list[Arena]:
        """Games that a learner learns from."""
        return [arena for arena in self.arenas.all if self.lessons.trains_in(learner, arena)]

    def start_of(self, learner: str) -> str:
        """Agent id of what a learner began as."""
        return self._starts[learner]

    # --- versions ----------------------------------------------------------------------------

    def freeze(self, learner: str, update: int = 0) -> tuple[str, list[str]]:
        """Put the learner's present version into the pool.

        Args:
            learner: whose.
            update: now; what `overdue` counts from.

        Returns:
            Its id, and the ids that left the pool because it is full.
        """
        frozen = self.live(learner)
        self._frozen_at[learner] = update
        if frozen not in self.past:
            self.past.append(frozen)
            self._ordinals[frozen] = sum(lineage(v) == learner for v in self._ordinals)
        own_versions = [v for v in self.past if v not in self.starts and lineage(v) == learner]
        stay = kept(
            own_versions,
            self._ordinals,
            self.opponents.past_limit,
            self.opponents.retention,
            hardness={v: min(self._score(m, v) for m in self.mains) for v in own_versions}
            if self.mains
            else None,
            support=self._support(),
        )
        dropped = [v for v in own_versions if v not in stay and v not in self.best.values()]
        self.past = [v for v in self.past if v not in dropped]
        for record in self._games.values():
            for version in dropped:
                record.forget(version)
        for cells in self._cells.values():
            for version in cells.agents():  # looked at, but never frozen or no longer kept
                if lineage(version) == learner and version not in self.past:
                    cells.forget(version)
        return frozen, dropped

    def promote(self, learner: str) -> None:
        """The learner's present version passed its gate."""
        self.best[learner] = self.live(learner)

    def overdue(self, learner: str, update: int, every: int) -> bool:
        """Whether a candidate is frozen although it failed: failures are opponents too."""
        return update - self._frozen_at[learner] >= self.exploiters.patience * every

    def beats_mains(self, learner: str) -> bool:
        """Whether an exploiter has done its work against every main."""
        scores = [self._score(learner, live_key(main)) for main in self.mains]
        return bool(scores) and min(scores) >= BEATEN_AT

    def starts_again(self, learner: str) -> bool:
        """Whether a learner that was just frozen goes back to its first weights; drops its games."""
        role = self.roles[learner]
        if role == "main":
            return False
        if role == "league_exploiter":
            place = (self.learners.index(learner), self.versions[learner].number)
            if self._rng(*place, 1).random() >= RESET_CHANCE:
                return False
        for record in self._games.values():
            record.clear(learner)
        return True

    # --- matches -----------------------------------------------------------------------------

    def next_match(self, number: int, start_states: int, attempts: int) -> MatchSpec:
        """Match ``number`` of the run, counted over all updates; see `training_matches`.

        A function of the number and of the league's state: that of another update gives another
        answer.
        """
        group, attempt = divmod(number, attempts)
        round_, state = divmod(group, start_states)
        update, index = divmod(round_, len(self.learners))
        return self._group(update, index, state, start_states, range(attempt, attempt + 1))[0]

    def training_matches(self, update: int, start_states: int, attempts: int) -> list[MatchSpec]:
        """Groups of matches for one update of every learner.

        Each start state is played ``attempts`` times by the same policies in the same seats; live
        learners in any seat of it learn, but in an exploiter's match only the exploiter learns.
        """
        self._counted.clear()
        matches = [
            match
            for index in range(len(self.learners))
            for state in range(start_states)
            for match in self._group(update, index, state, start_states, range(attempts))
        ]
        self.lessons.count_rows(update, start_states)
        return matches

    def spare_matches(
        self, update: int, start_states: int, attempts: int, spares: int
    ) -> list[MatchSpec]:
        """So many more groups of an update for every learner, to be played where others were flat.

        Their rows, where tasks are rows, are drawn by chance: how many are played is not known yet.
        """
        return [
            replace(match, schedule=f"refill/{name}", number=update * spares + spare)
            for index, name in enumerate(self.learners)
            for spare in range(spares)
            for match in self._group(
                update, index, start_states + spare, start_states, range(attempts)
            )
        ]

    # --- results -----------------------------------------------------------------------------

    def report(self, episodes: Sequence[Episode]) -> None:
        """Count results, each match once: training against the past and the mains, and payoffs.

        Branches count for nothing here: their starts were chosen.
        """
        lessons: list[Episode] = []
        for episode in episodes:
            spec = episode.spec
            counted = spec.match_id in self._counted
            if counted or not episode.valid or spec.branch is not None:
                continue
            if spec.split == "train":
                self._counted.add(spec.match_id)
                self._count_training(episode)
                lessons.append(episode)
            elif len(spec.seats) > 1 and (spec.purpose == "payoff" or self._rates(spec)):
                self._counted.add(spec.match_id)
                first = spec.seats[0]
                outcomes = episode.result().outcomes
                arena = self.arenas.of(spec)
                rivals = [n for k, n in enumerate(spec.seats) if not _mates(arena, 0, k)]
                second = next((name for name in rivals if name != first), first)
                points = mean_points(spec.seats, outcomes, first, arena.mode, arena.teams)
                cells = self._cells[arena.title]
                cells.add(first, second, points)
                cells.add(second, first, 1 - points)

        self.lessons.observe(lessons)

    @property
    def playing(self) -> list[str]:
        """Ids of the versions of learners that may sit in later matches."""
        return [*self.past, *map(str, self.versions.values())]

    def state(self) -> dict[str, Any]:
        """State that schedules depend on, as JSON values."""
        return {
            "versions": {name: str(version) for name, version in self.versions.items()},
            "past": self.past,
            "games": {name: record.state() for name, record in self._games.items()},
            "best": self.best,
            "cells": {name: record.state() for name, record in self._cells.items()},
            "lessons": self.lessons.state(),
            "rows": self.lessons.rows_asked,
            "ordinals": self._ordinals,
            "frozen_at": self._frozen_at,
            "gone": sorted(map(list, self.gone)),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self.versions = {
            name: WeightVersion.parse(str(state["versions"][name])) for name in self.learners
        }
        self.past = list(state["past"])
        self._games = {
            title: PairRecord({name: state["games"][title][name] for name in self.learners})
            for title in self._games
        }
        self._cells = {title: PairRecord(state["cells"][title]) for title in self._cells}
        self.lessons.load_state(state["lessons"])
        self.lessons.rows_asked = copy.deepcopy(state["rows"])
        self.best = dict(state["best"])
        self._frozen_at = dict(state["frozen_at"])
        self._ordinals = dict(state["ordinals"])
        self.gone = {(agent, game) for agent, game in state["gone"]}

    # --- who sits where ----------------------------------------------------------------------

    def _group(
        self, update: int, index: int, state: int, start_states: int, attempts: range
    ) -> list[MatchSpec]:
        """The attempts of one start state of one learner."""
        learner = self.learners[index]
        drawn = 0 if self._alike else index
        arena, level = self.lessons.arm(update, drawn, state, start_states)
        rng = self._rng(update, drawn, state)
        own_seats = self._held.get(learner) or range(arena.seats)
        seat = own_seats[(state + update) % len(own_seats)]
        kind, others = self._draw_opponents(rng, learner, arena)
        seats = [*others[:seat], self.live(learner), *others[seat:]]
        if self._held:
            seats = [
                name if self.evaluation.may_sit(name, k) else self._draw_for(rng, learner, kind, k)
                for k, name in enumerate(seats)
            ]
        starts = self._rng(update, drawn, state, _STARTS) if self._alike else rng
        seed = int(starts.integers(2**31))
        if rows := self.lessons.rows(update, drawn, state, start_states):
            seed = naming_rows(seed, rows)
        if kind not in ("self", "bot", "agent"):
            seats = self._share_seats(rng, learner, seats, seat, arena)
        learning = [learner] if kind == "exploit" else self._training_in(arena)
        live = {self.live(name) for name in learning}
        options = arena.training_options(level)
        return [
            MatchSpec(
                env_id=arena.env_id,
                options=options,
                seed=seed,
                split="train",
                seats=tuple(seats),
                learner_seats=tuple(s for s, name in enumerate(seats) if name in live),
                purpose=kind,
                cluster=f"train/{seed}",
                schedule=f"train/{learner}",
                number=update * start_states + state,
                attempt=attempt,
                teams=arena.teams,
            )
            for attempt in attempts
        ]

    def _training_in(self, arena: Arena) -> list[str]:
        """Learners that learn from their matches in a game."""
        return [name for name in self.learners if self.lessons.trains_in(name, arena)]

    def _share_seats(
        self, rng: np.random.Generator, learner: str, seats: list[str], seat: int, arena: Arena
    ) -> list[str]:
        """Give the learner more than one seat where the game's kind asks for it."""
        me, seats = self.live(learner), list(seats)
        if arena.teams:  # half of the time team mates are the learner itself
            mates = [k for k, team in enumerate(arena.teams) if team == arena.teams[seat]]
            if rng.random() < 0.5:
                for k in mates:
                    if self.evaluation.may_sit(me, k):
                        seats[k] = me
                    else:
                        seats[k] = self._mate(me, k) or seats[k]
        elif (arena.opponents or self.opponents).focal_shares:
            n = arena.seats
            held = (1, n // 2, n - 1)[int(rng.integers(3))]
            free = [k for k in range(n) if k != seat]
            for k in rng.permutation(free)[: max(0, held - 1)]:
                if self.evaluation.may_sit(me, int(k)):
                    seats[int(k)] = me
        return seats

    def _mate(self, agent: str, seat: int) -> str | None:
        """The live main that plays a seat of its side which an agent may not hold."""
        live = (self.live(name) for name in self.mains)
        return next((name for name in live if self.evaluation.may_sit(name, seat)), None)

    def _draw_for(self, rng: np.random.Generator, learner: str, kind: Purpose, seat: int) -> str:
        """An agent for a seat whose role the drawn agent does not have: a main's live version, or in a match
        with the past a frozen one."""
        past = [v for v in self.past if v not in self.starts and self.evaluation.may_sit(v, seat)]
        live = [
            self.live(name) for name in self.mains if self.evaluation.may_sit(self.live(name), seat)
        ]
        pool = (past if kind == "past" else live) or [self.start_of(learner)]
        return pool[int(rng.integers(len(pool)))]

    def _draw_opponents(
        self, rng: np.random.Generator, learner: str, arena: Arena
    ) -> tuple[Purpose, list[str]]:
        """The kind of opponent, and who sits in the other seats."""
        free = arena.seats - 1
        if not free:
            return "self", []
        role = self.roles[learner]
        if role == "main_exploiter":
            return "exploit", self._mains_or_their_past(rng, learner, free, arena)
        if role == "league_exploiter":
            return "exploit", self._draw(rng, self.past, self._even(learner, arena), free)
        settings = arena.opponents or self.opponents
        kinds = {"mirror": settings.mirror, "live": settings.live, "past": settings.past}
        peers = [name for name in self.mains if name in self._training_in(arena)]
        if peers == [learner]:
            kinds["mirror"] += kinds.pop("live")
        if settings.verify:
            kinds["verify"] = settings.verify
        kinds |= {f"{BOT}{name}": weight for name, weight in settings.bots.items()}
        gone = {agent for agent, game in self.gone if game == arena.title}
        kinds |= {name: w for name, w in settings.agents.items() if name not in gone}
        if not any(kinds.values()):  # no other opponent is left
            kinds["mirror"] = 1.0
        names, weights = list(kinds), np.array(list(kinds.values()))
        kind = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        if kind == "mirror":
            return "self", [self.live(learner)] * free
        if kind == "live":
            peers.remove(learner)
            return "self", [self.live(peers[int(rng.integers(len(peers)))]) for _ in range(free)]
        if kind == "past":
            pool = self._pool(learner, settings)
            return "past", self._draw(rng, pool, self._past_chances(learner, pool, arena), free)
        if kind == "verify":
            return self._verification(rng, learner, free, arena)
        return ("agent" if kind in settings.agents else "bot"), [kind] * free

    def _draw(
        self, rng: np.random.Generator, pool: Sequence[str], chances: Floats, count: int
    ) -> list[str]:
        return [pool[int(rng.choice(len(chances), p=chances))] for _ in range(count)]

    def _pool(self, learner: str, settings: OpponentSettings) -> list[str]:
        """Frozen versions that a main may meet."""
        if not settings.strangers:
            return self.past
        return [v for v in self.past if lineage(v) != learner]

    def _rates(self, spec: MatchSpec) -> bool:
        """Whether the samplers read the ratings, so that this match rates its agents."""
        return self.opponents.prior == "ratings" and spec.schedule != FINAL

    def _prior(self, learner: str, pool: Sequence[str], arena: Arena) -> Floats | float:
        """Expected score of a learner against each of the pool, before their own games."""
        if self.opponents.prior == "even" or arena.mode == "cooperative":
            return 0.5
        games, cells = self._games[arena.title], self._cells[arena.title]
        known = [name for name in cells.agents() if name not in pool]
        expected_NN = expected_scores([games, cells], [learner, *pool, *known])
        return 0.5 if expected_NN is None else expected_NN[0, 1 : 1 + len(pool)]

    def _past_chances(self, learner: str, pool: Sequence[str], arena: Arena) -> Floats:
        payoff_NN = self._cells[arena.title].payoffs(pool) if self.opponents.payoff_pairs else None
        own_places = [k for k, v in enumerate(pool) if lineage(v) == learner]
        view = self._games[arena.title].view(
            learner,
            pool,
            prior=self._prior(learner, pool, arena),
            payoff_NN=payoff_NN,
            itself=own_places[-1] if own_places else None,
        )
        return self._choosers[arena.title](view)

    def _even(self, learner: str, arena: Arena) -> Floats:
        return pfsp(self._games[arena.title].view(learner, self.past), "even")

    def _mains_or_their_past(
        self, rng: np.random.Generator, learner: str, free: int, arena: Arena
    ) -> list[str]:
        """A main as it is, or its past of the exploiter's own strength while the main is too hard."""
        record = self._games[arena.title]
        main = self.mains[int(rng.integers(len(self.mains)))]
        past = [v for v in self.past if lineage(v) == main]
        if record.score(learner, live_key(main)) > TOO_HARD or not past:
            return [self.live(main)] * free
        return self._draw(rng, past, pfsp(record.view(learner, past), "variance"), free)

    def _verification(
        self, rng: np.random.Generator, learner: str, free: int, arena: Arena
    ) -> tuple[Purpose, list[str]]:
        """Exploiters that still win, else versions of its own that it forgot to beat, else itself."""
        record = self._games[arena.title]
        exploiters = self._losing_to(record, learner, UNBEATEN, exploiters=True)
        pool = exploiters or self._losing_to(record, learner, FORGOTTEN, exploiters=False)
        if not pool:
            return "self", [self.live(learner)] * free
        chances = pfsp(record.view(learner, pool), "hard")
        return "verify", self._draw(rng, pool, chances, free)

    def _losing_to(
        self, record: PairRecord, learner: str, below: float, *, exploiters: bool
    ) -> list[str]:
        """Frozen exploiters, or own versions, that were met and give too few points per game."""
        return [
            v
            for v in self.past
            if (
                self.roles.get(lineage(v), "main") != "main"
                if exploiters
                else lineage(v) == learner
            )
            and record.games(learner, v)
            and record.score(learner, v) < below
        ]

    def _support(self) -> Collection[str]:
        """Versions in the equilibrium of the payoffs."""
        if not self.opponents.retention.support:
            return ()
        records = [self._cells[arena.title] for arena in self.arenas.met_in]
        if not records:
            return ()
        payoff_NN: Floats = np.mean([record.payoffs(self.past) for record in records], axis=0)
        chances = find_sampler("nash", {"floor": 1e-6})(
            records[0].view(self.starts[0], self.past, payoff_NN=payoff_NN)
        )
        return [v for v, chance in zip(self.past, chances, strict=True) if chance > 1e-3]

    def _count_training(self, episode: Episode) -> None:
        """Points of the learning seats against the past, and of exploiters against the mains."""
        arena = self.arenas.of(episode.spec)
        record = self._games[arena.title]
        for seat in episode.spec.learner_seats:
            me = episode.trajectories[seat]
            name = lineage(me.policy)
            for other in episode.trajectories:
                if other.seat == seat or _mates(arena, seat, other.seat):
                    continue
                if other.policy in self.past:
                    key = other.policy
                elif self.roles[name] != "main" and lineage(other.policy) in self.mains:
                    key = live_key(lineage(other.policy))
                else:
                    continue
                points = seat_points(me.outcome, other.outcome, arena.mode)
                record.add(name, key, points, _DECAY)

    def _no_games(self) -> dict[str, PairRecord]:
        return {
            arena.title: PairRecord({name: {} for name in self.learners})
            for arena in self.arenas.all
        }

    def _score(self, me: str, other: str) -> float:
        """Points per game, the mean over the games that are trained."""
        own = [self._games[arena.title].score(me, other) for arena in self.arenas.met_in]
        return float(np.mean(own or [0.5]))

    def _rng(self, *position: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, *position])))


def _mates(arena: Arena, seat: int, other: int) -> bool:
    return bool(arena.teams) and arena.teams[seat] == arena.teams[other]
