"""The `rewards` section of a recipe: the weights of components and terms in the reward that credit reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from srl_agents.metrics.names import CREDITED, REWARD_SPREAD
from srl_agents.rewards.terms import REWARD_SECTION, RewardTerm
from srl_envs.errors import ConfigError, nearest

RESERVED_NAMES = (CREDITED, "reward_model", *REWARD_SPREAD)
"""Names that metrics and the learned judge use beside components."""
RESOURCE = "resource"
"""Weight of the share of a scarce pool, whatever a game calls it."""
MOST_WEIGHT = 1e6
"""Beyond it rewards of an episode could leave what a float holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardSettings:
    """What an episode is worth to credit: components of the game by weight, and terms beside them.

    Ratings, outcomes and the store never see it.
    """

    weights: dict[str, float] = field(default_factory=dict)
    """Component of the environment -> reward units for each unit of it. What the environment pays
    (``outcome``, ``format``) counts 1 unless named here; a statistic of the game counts 0, and is paid
    with the seat's last turn. ``resource`` stands for the one that is the share of the scarce pool which the
    seat won, in games that have a pool."""
    terms: dict[str, Annotated[RewardTerm, REWARD_SECTION]] = field(default_factory=dict)
    """Name -> reward beside the game's; the name is that of its component and metric."""
    mask_overlong: bool = False
    """Replies that the token limit cut get no gradient; their rewards still count in baselines.
    Source: overlong filtering, arXiv:2503.14476 section 3.4."""

    def __post_init__(self) -> None:
        for name, weight in self.weights.items():
            if not abs(weight) <= MOST_WEIGHT:
                raise ConfigError(
                    f"weights.{name}={weight}: use {-MOST_WEIGHT:g} to {MOST_WEIGHT:g}."
                )
        for name in self.terms:
            if not name.isidentifier() or name in RESERVED_NAMES:
                raise ConfigError(
                    f"terms: {name!r} must be letters, digits and underscores, and none of "
                    f"{', '.join(RESERVED_NAMES)}."
                )

    def check(
        self,
        paid: Sequence[str],
        statistics: Sequence[str],
        references: Sequence[str],
        max_new_tokens: int,
        *,
        resource: str = "",
    ) -> dict[str, float]:
        """Compare with the environment.

        Args:
            paid: components that its rewards are the sum of.
            statistics: components that it reports at the end.
            references: answers that it holds to be right, by name.
            max_new_tokens: limit of a reply.
            resource: the statistic that is the share of a scarce pool; empty without a pool.

        Returns:
            The weight of every component that counts.

        Raises:
            ConfigError: a component is unknown, a term bears the name of one, needs a reference that the
                game does not have or does not fit, or every reward would be 0.
        """
        known = (*paid, *statistics)
        given = self._weights(resource)
        for name in given:
            if name not in known:
                raise ConfigError(
                    f"rewards.weights: the environment has no component {name!r}."
                    f"{nearest(name, known)} It has: {', '.join(known)}."
                )
        for name, term in self.terms.items():
            if name in known:
                raise ConfigError(
                    f"rewards.terms: {name!r} is a component of the environment; choose another name."
                )
            for needed in term.references:
                if needed not in references:
                    raise ConfigError(
                        f"rewards.terms.{name} reads {needed!r}, which this environment does not have: "
                        f"it has {', '.join(references) or 'no right answers'}. "
                        "`srl docs rewards` lists the answers of each game."
                    )
            try:
                term.judge(max_new_tokens)
            except ConfigError as error:
                raise ConfigError(f"rewards.terms.{name}: {error}") from None
        weights = {**dict.fromkeys(paid, 1.0), **given}
        counting = {name: weight for name, weight in weights.items() if weight != 0}
        if not counting and not self.terms:
            raise ConfigError(
                "rewards.weights: with these every reward is 0, and there is nothing to learn. Give a "
                "component a weight, or name a reward in rewards.terms."
            )
        return counting

    def _weights(self, resource: str) -> dict[str, float]:
        """With the statistic's own name for ``resource``."""
        if RESOURCE not in self.weights:
            return self.weights
        if not resource:
            raise ConfigError(
                f"rewards.weights.{RESOURCE}: the environment has no scarce pool that a seat could win a "
                "share of; leave it out."
            )
        if resource in self.weights:
            raise ConfigError(
                f"rewards.weights: {RESOURCE} is this environment's {resource!r}; give one of the two."
            )
        return {resource if k == RESOURCE else k: v for k, v in self.weights.items()}
