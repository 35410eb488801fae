"""Branches of an update's matches: which decisions fork, and in which rounds they are played."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.recipes.sections.fork_choice import ForkSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, Turn
from srl_agents.rollouts.branches import branch_spec

Play = Callable[[Sequence[MatchSpec], Mapping[str, Episode]], list[Episode]]
"""(specs of branches, match id -> parent) -> episodes in their order."""
Covered = Callable[[Sequence[MatchSpec]], Sequence[MatchSpec]]
"""Branches of which budgets of opponents cover all that may be asked; of one decision all or none."""
Rounds = Generator[list[MatchSpec], Sequence[Episode], None]
"""Specs of branches that are played together, round by round; each round is answered with its episodes."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """One decision that may fork."""

    episode: Episode
    seat: int
    turn: Turn

    @property
    def place(self) -> int:
        return self.turn.turn_index

    @property
    def surprise(self) -> float:
        """Mean negative log-probability of the reply's tokens: an estimate of the entropy there, in nats."""
        return -float(np.mean(self.turn.logprobs)) if self.turn.logprobs else 0.0

    @property
    def tokens(self) -> int:
        """Reply tokens of the match from this decision on: what a branch is expected to take."""
        return sum(
            len(turn.completion_ids)
            for own in self.episode.trajectories
            for turn in own.turns
            if turn.step >= self.turn.step
        )


class Forking:
    """Makes and plays the branches of an update. Holds nothing between updates.

    Args:
        settings: see `ForkSettings`.
        seed: of the run; every choice depends only on it and on the match.
        joint: whether all seats on move in a step answer anew together, or one while the others keep their
            replies.
    """

    def __init__(self, settings: ForkSettings, seed: int, *, joint: bool = False) -> None:
        self._settings, self._seed, self._joint = settings, seed, joint

    def play(
        self,
        episodes: Sequence[Episode],
        learners: Collection[str],
        play: Play,
        covered: Covered = list,
    ) -> list[Episode]:
        """Play all branches of an update's matches.

        Args:
            episodes: as they were played; lost ones have no branches.
            learners: agent ids whose decisions may fork.
            play: plays specs.
            covered: leaves out what budgets do not cover.
        """
        known = {episode.spec.match_id: episode for episode in episodes}
        played: list[Episode] = []
        rounds = self.rounds(episodes, learners, covered)
        specs = next(rounds, None)
        while specs is not None:
            made = play(specs, parents_of(specs, known))
            known |= {episode.spec.match_id: episode for episode in made}
            played += made
            specs = answered(rounds, made)
        return played

    def rounds(
        self, episodes: Sequence[Episode], learners: Collection[str], covered: Covered = list
    ) -> Rounds:
        """The branches of an update's matches: all at once, or round by round where a path goes on.

        Args:
            episodes: as they were played; lost ones have no branches.
            learners: agent ids whose decisions may fork.
            covered: as in `play`.
        """
        left = math.inf if self._settings.tokens is None else float(self._settings.tokens)
        parents = [episode for episode in episodes if episode.valid]
        if self._settings.path != "parent":
            yield from self._along_paths(parents, learners, left, covered)
            return
        found = [d for e in parents for d in self._chosen(e, self._decisions(e, learners))]
        chosen, _ = self._within(found, left)
        _, specs = self._branches(chosen, covered)
        if specs:
            yield specs

    def _along_paths(
        self,
        parents: Sequence[Episode],
        learners: Collection[str],
        left: float,
        covered: Covered,
    ) -> Rounds:
        """Fork the decisions of each path's first step, choose an alternative, and go on behind it."""
        paths, after = list(parents), [-1] * len(parents)
        while paths:
            heads: list[_Decision] = []
            for episode, step in zip(paths, after, strict=True):
                later = [d for d in self._decisions(episode, learners) if d.turn.step > step]
                heads += [d for d in later if d.turn.step == later[0].turn.step]
            chosen, left = self._within(heads, left)
            chosen, specs = self._branches(chosen, covered)
            if not specs:
                return
            made = yield specs
            each = self._settings.alternatives - 1
            forked: dict[str, list[tuple[_Decision, list[Episode]]]] = {}
            for number, decision in enumerate(chosen):
                mine = [e for e in made[number * each : (number + 1) * each] if e.valid]
                own = forked.setdefault(decision.episode.spec.match_id, [])
                own.append((decision, [decision.episode, *mine]))
            paths, after = [], []
            for own in forked.values():  # of seats that moved together, a drawn one leads on
                decision, alternatives = min(own, key=lambda pair: self._rank(pair[0]))
                paths.append(self._next(decision, alternatives))
                after.append(decision.turn.step)

    def _next(self, decision: _Decision, alternatives: Sequence[Episode]) -> Episode:
        """The alternative in which the path goes on."""
        if self._settings.path == "sampled":  # by decision, as a path may stay in a match
            draws = self._draws(decision.episode, decision.place + 1, 1)
            return alternatives[int(draws.integers(len(alternatives)))]
        return max(alternatives, key=lambda e: e.trajectories[decision.seat].outcome)

    def _branches(
        self, chosen: Sequence[_Decision], covered: Covered
    ) -> tuple[list[_Decision], list[MatchSpec]]:
        """As many decisions as are covered with all of their branches, and these in their order."""
        own = {
            (d.episode.spec.match_id, d.place): [
                branch_spec(
                    d.episode,
                    d.place,
                    alternative=k,
                    joint=self._joint,
                    chances=self._settings.chances,
                )
                for k in range(1, self._settings.alternatives)
            ]
            for d in chosen
        }

        def branches(decisions: Sequence[_Decision]) -> list[MatchSpec]:
            return [s for d in decisions for s in own[d.episode.spec.match_id, d.place]]

        whole = branches(chosen)
        kept = {spec.match_id for spec in covered(whole)}
        if len(kept) == len(whole):
            return [*chosen], whole
        left = [d for d in chosen if branches([d])[0].match_id in kept]
        dear = sorted(
            (d for d in chosen if branches([d])[0].match_id not in kept),
            key=lambda d: (d.episode.spec.env_id, d.episode.spec.seats, self._rank(d), d.place),
        )
        for _, alike in groupby(dear, key=lambda d: (d.episode.spec.env_id, d.episode.spec.seats)):
            left += _most(list(alike), lambda more: _all(covered, branches([*left, *more])))  # noqa: B023
        taken = {id(d) for d in left}
        found = [d for d in chosen if id(d) in taken]
        return found, branches(found)

    def _decisions(self, episode: Episode, learners: Collection[str]) -> list[_Decision]:
        """Decisions of learning seats that were made in this match, in order; if joint, one per step."""
        own = [
            _Decision(episode, own.seat, turn)
            for own in episode.trajectories
            if own.policy in learners
            and own.seat in episode.spec.learner_seats
            and (not self._settings.seats or own.seat in self._settings.seats)
            for turn in own.turns
            if turn.completion_ids and not turn.inherited
        ]
        own.sort(key=lambda d: d.place)
        if not self._joint:
            return own
        first: dict[int, _Decision] = {}
        for seat in episode.trajectories:
            for turn in seat.turns:
                known = first.get(turn.step)
                if known is None or turn.turn_index < known.place:
                    first[turn.step] = _Decision(episode, seat.seat, turn)
        return [first[step] for step in dict.fromkeys(d.turn.step for d in own)]

    def _chosen(self, episode: Episode, found: Sequence[_Decision]) -> list[_Decision]:
        """The share of a match's decisions that fork."""
        count = math.ceil(self._settings.share * len(found))
        if count >= len(found):
            return [*found]
        if self._settings.choose == "entropy":
            ranked = sorted(found, key=lambda d: (-d.surprise, d.place))
        else:
            ranked = [found[k] for k in self._draws(episode).permutation(len(found))]
        return sorted(ranked[:count], key=lambda d: d.place)

    def _within(self, found: Sequence[_Decision], left: float) -> tuple[list[_Decision], float]:
        """Decisions whose branches fit what is left of the tokens, and what is left then.

        Which come first is drawn, so that a limit does not prefer early matches.
        """
        if math.isinf(left):
            return [*found], left
        ranked = sorted(found, key=lambda d: (self._rank(d), d.place))
        taken: set[int] = set()
        for decision in ranked:
            cost = decision.tokens * (self._settings.alternatives - 1)
            if cost <= left:
                taken.add(id(decision))
                left -= cost
        return [d for d in found if id(d) in taken], left

    def _rank(self, decision: _Decision) -> float:
        return float(self._draws(decision.episode, decision.place + 1).random())

    def _draws(self, episode: Episode, *more: int) -> np.random.Generator:
        match = int(episode.spec.match_id[:15], 16)
        return np.random.default_rng([self._seed, match, *more])


def _most(
    ranked: Sequence[_Decision], fits: Callable[[Sequence[_Decision]], bool]
) -> Sequence[_Decision]:
    """The longest beginning that fits; fewer always fit where more do."""
    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(ranked[:middle]) else (low, middle - 1)
    return ranked[:low]


def _all(covered: Covered, specs: Sequence[MatchSpec]) -> bool:
    return len(covered(specs)) == len(specs)


def answered(rounds: Rounds, episodes: Sequence[Episode]) -> list[MatchSpec] | None:
    """The round that follows one that was played; None where there is none."""
    try:
        return rounds.send(episodes)
    except StopIteration:
        return None


def parents_of(specs: Sequence[MatchSpec], known: Mapping[str, Episode]) -> dict[str, Episode]:
    """Match id -> episode, of the matches that branches among the specs leave."""
    names = dict.fromkeys(spec.branch.parent for spec in specs if spec.branch is not None)
    return {name: known[name] for name in names}


def make_forking(recipe: LeagueRecipe) -> Forking | None:
    """What plays a recipe's branches; None without forks."""
    if recipe.forks is None:
        return None
    kinds = [ESTIMATORS.find(game.credit.estimator) for game in recipe.games]
    return Forking(recipe.forks, recipe.seed, joint=any(kind.needs_joint for kind in kinds))
