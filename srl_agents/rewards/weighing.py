"""Episodes as the game paid them -> episodes as a recipe's rewards value them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from srl_agents.metrics.names import CREDITED
from srl_agents.records import Episode, Trajectory
from srl_agents.rewards.settings import RewardSettings
from srl_agents.rewards.terms import Judge, Played
from srl_envs.errors import ConfigError

Values = Sequence[Sequence[float | None]]


class RecipeRewards:
    """The `rewards` section of a recipe at work; it remembers nothing between updates.

    Args:
        settings: of the recipe.
        paid: components that the environment's rewards are the sum of.
        statistics: components that it reports at the end.
        references: answers that it holds to be right, by name.
        max_new_tokens: limit of a reply.
        resource: the statistic that is the share of a scarce pool; empty without a pool.

    Raises:
        ConfigError: see `RewardSettings.check`.
    """

    def __init__(
        self,
        settings: RewardSettings,
        *,
        paid: Sequence[str],
        statistics: Sequence[str],
        references: Sequence[str] = (),
        max_new_tokens: int,
        resource: str = "",
    ) -> None:
        self.settings = settings
        self._weights = settings.check(
            paid, statistics, references, max_new_tokens, resource=resource
        )
        self._statistics = frozenset(statistics)
        self._judges: dict[str, Judge] = {
            name: term.judge(max_new_tokens) for name, term in settings.terms.items()
        }

    def judged(
        self, episodes: Sequence[Episode], policies: Collection[str]
    ) -> tuple[list[Episode], dict[str, dict[str, float]]]:
        """Episodes as credit shall see them.

        Of a learning seat, ``reward`` and ``total_reward`` are the weighted sum of the game's
        components and the terms. Components of the game stay as they were; each term adds one under
        its name, weight included. Outcomes, other seats and all other fields stay.

        Args:
            episodes: as they were played; they are not changed.
            policies: version ids that learn.

        Returns:
            The episodes, void where a judge failed; and per policy what each component that counts
            brought it, the mean over its valid episodes, as ``reward/NAME``, with ``reward/credited``
            for the sum.

        Raises:
            ConfigError: a judge raised, or gave something other than one finite number per turn.
        """
        played = [
            Played(episode, seat)
            for episode in episodes
            if episode.valid
            for seat in episode.spec.learner_seats
            if episode.spec.seats[seat] in policies
        ]
        values = {name: self._values(name, played) for name in self._judges}
        changed: dict[int, dict[int, Trajectory]] = defaultdict(dict)
        faults: dict[int, str] = {}
        for number, own in enumerate(played):
            given = {name: values[name][number] for name in values}
            failed = next((name for name, found in given.items() if None in found), None)
            if failed is not None:
                faults[id(own.episode)] = f"reward {failed!r} could not be judged"
            else:
                terms = {name: _numbers(found) for name, found in given.items()}
                changed[id(own.episode)][own.seat] = self._weighed(own.trajectory, terms)
        judged = [
            replace(episode, termination="void", fault=faults[id(episode)])
            if id(episode) in faults
            else _with(episode, changed[id(episode)])
            for episode in episodes
        ]
        return judged, self._metrics(judged, policies)

    def _values(self, name: str, played: Sequence[Played]) -> Values:
        try:
            values = self._judges[name](played)
        except ConfigError as error:
            raise ConfigError(f"rewards.terms.{name}: {error}") from None
        except Exception as error:  # foreign code: its fault is reported with its place
            raise ConfigError(
                f"rewards.terms.{name} raised {type(error).__name__}: {error}"
            ) from error
        wanted = [len(own.trajectory.turns) for own in played]
        finite = all(value is None or np.isfinite(value) for own in values for value in own)
        if [len(own) for own in values] != wanted or not finite:
            raise ConfigError(
                f"rewards.terms.{name}: expected one finite number, or None, for each turn of each of "
                f"{len(played)} seats."
            )
        return values

    def _weighed(self, trajectory: Trajectory, terms: Mapping[str, Sequence[float]]) -> Trajectory:
        """One seat's part with the weighted rewards; what it was paid before its first turn stays only in
        the total."""
        late = sum(
            weight * trajectory.components.get(name, 0.0)
            for name, weight in self._weights.items()
            if name in self._statistics
        )
        turns, last = [], len(trajectory.turns) - 1
        sums = dict.fromkeys(terms, 0.0)
        for k, turn in enumerate(trajectory.turns):
            extra = {name: self.settings.terms[name].weight * own[k] for name, own in terms.items()}
            sums = {name: sums[name] + value for name, value in extra.items()}
            reward = self._sum(turn.components) + sum(extra.values()) + (late if k == last else 0.0)
            turns.append(
                replace(
                    turn,
                    reward=reward,
                    components={**turn.components, **extra},
                    masked=self.settings.mask_overlong and turn.finish == "length",
                )
            )
        return replace(
            trajectory,
            turns=tuple(turns),
            total_reward=self._sum(trajectory.components) + late + sum(sums.values()),
            components={**trajectory.components, **sums},
        )

    def _sum(self, components: Mapping[str, float]) -> float:
        """Weighted sum of what the environment paid."""
        return sum(
            weight * components.get(name, 0.0)
            for name, weight in self._weights.items()
            if name not in self._statistics
        )

    def _metrics(
        self, judged: Sequence[Episode], policies: Collection[str]
    ) -> dict[str, dict[str, float]]:
        weights = {**self._weights, **dict.fromkeys(self._judges, 1.0)}
        own: dict[str, list[Trajectory]] = defaultdict(list)
        for episode in judged:
            for seat in episode.spec.learner_seats if episode.valid else ():
                if episode.spec.seats[seat] in policies:
                    own[episode.spec.seats[seat]].append(episode.trajectories[seat])
        return {
            policy: {
                **{
                    f"reward/{name}": float(
                        np.mean([weight * t.components.get(name, 0.0) for t in seats])
                    )
                    for name, weight in weights.items()
                },
                f"reward/{CREDITED}": float(np.mean([t.total_reward for t in seats])),
            }
            for policy, seats in own.items()
        }


def _with(episode: Episode, changed: Mapping[int, Trajectory]) -> Episode:
    return replace(
        episode,
        trajectories=tuple(changed.get(t.seat, t) for t in episode.trajectories),
    )


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None]
