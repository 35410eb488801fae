"""Opponent samplers: pure functions from a view of the field to probabilities.

A sampler never draws; the manager does, with the generator of the match. No sampler but `fixed` gives
an opponent probability 0, so that one early result cannot remove an opponent for good.

Source: prioritized fictitious self-play of "Grandmaster level in StarCraft II using multi-agent
reinforcement learning", Nature 575 (2019). Differences: win rates are shrunk towards a prior,
because a league of language models has tens of games per pair and raw rates collapse (one loss
or one win makes x(1 - x) zero), and a floor is mixed in. `nash` is the meta-strategy of policy-space
response oracles, arXiv:1711.00832; its rectified form arXiv:1901.08106.

Array axis: ``N`` opponents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from srl_agents.kinds import Kinds, function_of
from srl_agents.league.ratings.nash import equilibrium
from srl_envs.errors import ConfigError, ShapeError

Floats = NDArray[np.float64]
Preference = Literal["hard", "variance", "even"]

FLOOR = 0.02
"""Share of all draws that is spread evenly, whatever the sampler prefers."""
KAPPA = 4.0
"""Games that the prior of a win rate is worth."""


@dataclass(frozen=True, kw_only=True)
class SamplerSettings:
    """What a sampler reads beside its view. Without slots, so that other settings may derive from it."""

    sampler_options: dict[str, Any] = field(default_factory=dict)
    """Options of the sampler, for example ``{low: 1, high: 4}`` of ``lagged``, or
    ``{weights: {"bot:strong": 1}}`` of ``fixed``."""


@dataclass(frozen=True, slots=True, eq=False)
class OpponentView:
    """A sampler's view of one learner's possible opponents, oldest first."""

    opponents: tuple[str, ...]
    points_N: Floats
    """Points the learner took from each: 1 per win, 0.5 per tie."""
    games_N: Floats
    """Games against each; fractions are allowed, so that old games may count less."""
    prior_N: Floats | float = 0.5
    """Expected score before any game in [0, 1], for example from ratings; one number for all."""
    payoff_NN: Floats | None = None
    """Score minus one half of row against column among the opponents, for `nash`."""
    itself: int | None = None
    """Place of the learner's own present version among the opponents, if it is one."""

    def __post_init__(self) -> None:
        n, prior_N = len(self.opponents), np.asarray(self.prior_N)
        shapes = self.points_N.shape, self.games_N.shape, prior_N.shape or (n,)
        if self.payoff_NN is not None and self.payoff_NN.shape != (n, n):
            raise ShapeError(f"{n} opponents with payoffs of shape {self.payoff_NN.shape}.")
        if any(shape != (n,) for shape in shapes):
            raise ShapeError(f"{n} opponents with columns of shapes {shapes}.")
        if not self.opponents:
            raise ConfigError("no opponent to choose from: add the learner's own start at least.")
        if ((self.points_N < 0) | (self.points_N > self.games_N)).any():
            raise ConfigError(f"points {self.points_N} do not fit games {self.games_N}.")
        if ((prior_N < 0) | (prior_N > 1)).any():
            raise ConfigError(f"prior {self.prior_N}: an expected score lies in [0, 1].")

    @classmethod
    def unplayed(cls, opponents: tuple[str, ...]) -> OpponentView:
        """A view before any game."""
        none = np.zeros(len(opponents))
        return cls(opponents, none, none)


Sampler = Callable[..., Floats]
"""From a view, and options by name, to probabilities."""


def win_rates(view: OpponentView, *, kappa: float = KAPPA) -> Floats:
    """(N,) the learner's scores in [0, 1], shrunk: (points + kappa * prior) / (games + kappa)."""
    if not kappa > 0:
        raise ConfigError(f"kappa={kappa}: an opponent without games would divide by 0.")
    rates: Floats = (view.points_N + kappa * view.prior_N) / (view.games_N + kappa)
    return rates


def uniform_past(view: OpponentView) -> Floats:
    """(N,) equal probabilities."""
    return np.full(len(view.opponents), 1 / len(view.opponents))


def latest(view: OpponentView, *, floor: float = FLOOR) -> Floats:
    """(N,) the newest, apart from the floor."""
    return _floored(np.eye(len(view.opponents))[-1], floor)


def pfsp(
    view: OpponentView,
    preference: Preference = "hard",
    *,
    kappa: float = KAPPA,
    floor: float = FLOOR,
) -> Floats:
    """(N,) prioritized fictitious self-play on the shrunken win rate x.

    Args:
        view: the learner's record.
        preference: ``hard`` (1 - x)², those it loses to; ``variance`` x (1 - x), those of its own
            strength; ``even`` min(1/2, 1 - x), all that it does not beat yet alike.
        kappa: games that the prior is worth.
        floor: share of draws spread evenly.

    Returns:
        Probabilities; uniform if all preferences are 0.

    Raises:
        ConfigError: unknown preference, ``kappa`` not above 0, ``floor`` outside (0, 1].
    """
    x_N = win_rates(view, kappa=kappa)
    if preference == "hard":
        return _floored((1 - x_N) ** 2, floor)
    if preference == "variance":
        return _floored(x_N * (1 - x_N), floor)
    if preference == "even":
        return _floored(np.minimum(0.5, 1 - x_N), floor)
    raise ConfigError(f"preference {preference!r}; use hard, variance or even.")


def self_play(view: OpponentView, *, floor: float = FLOOR) -> Floats:
    """(N,) the learner's own present version, apart from the floor; the newest if it is absent."""
    place = len(view.opponents) - 1 if view.itself is None else view.itself
    return _floored(np.eye(len(view.opponents))[place], floor)


def lagged(view: OpponentView, *, low: int = 1, high: int = 4, floor: float = FLOOR) -> Floats:
    """(N,) those that are ``low`` to ``high`` places behind the newest; the oldest if none is."""
    if not 0 <= low <= high:
        raise ConfigError(
            f"low={low}, high={high}: lags count back from the newest, 0 <= low <= high."
        )
    lag_N = np.arange(len(view.opponents))[::-1]
    low = min(low, int(lag_N[0]))
    return _floored(((lag_N >= low) & (lag_N <= high)).astype(np.float64), floor)


def match_quality(view: OpponentView, *, floor: float = FLOOR) -> Floats:
    """(N,) 4 p (1 - p) with the score p that ratings expect: even games, whatever the pair's record."""
    p_N = np.broadcast_to(np.asarray(view.prior_N, dtype=np.float64), view.games_N.shape)
    return _floored(4 * p_N * (1 - p_N), floor)


def nash(view: OpponentView, *, rectified: bool = False, floor: float = FLOOR) -> Floats:
    """(N,) equilibrium of the payoffs among the opponents; equal probabilities without payoffs.

    Args:
        view: with ``payoff_NN``.
        rectified: keep only opponents that the learner does not lose to, if there is one.
        floor: share of draws spread evenly.
    """
    if view.payoff_NN is None:
        return uniform_past(view)
    weight_N = equilibrium(view.payoff_NN).row
    if rectified:
        beaten_N = weight_N * (win_rates(view) >= 0.5)
        weight_N = beaten_N if beaten_N.any() else weight_N
    return _floored(weight_N, floor)


def fixed(view: OpponentView, *, weights: Mapping[str, float] | None = None) -> Floats:
    """(N,) given weights by opponent; one without a weight is left out, the one floor that is not kept.

    Everyone alike while none of the named is there.
    """
    given = dict(weights or {})
    if any(not weight >= 0 for weight in given.values()):
        raise ConfigError(f"weights={given}: a weight is 0 or more.")
    weight_N = np.array([given.get(name, 0.0) for name in view.opponents], dtype=np.float64)
    total = float(weight_N.sum())
    return weight_N / total if total > 0 else uniform_past(view)


pfsp_hard = partial(pfsp, preference="hard")
pfsp_variance = partial(pfsp, preference="variance")
pfsp_even = partial(pfsp, preference="even")

SAMPLERS: Kinds[Sampler] = Kinds(
    what="sampler",
    group="srl_agents.samplers",
    built_in={
        name: f"srl_agents.league.sampling:{name}"
        for name in (
            "uniform_past", "latest", "pfsp_hard", "pfsp_variance", "pfsp_even", "self_play",
            "lagged", "match_quality", "nash", "fixed",
        )
    },
    fault=function_of("of (OpponentView, options by name) -> probabilities"),
)  # fmt: skip
"""Names for recipes."""


def find_sampler(name: str, options: Mapping[str, Any]) -> Callable[[OpponentView], Floats]:
    """A sampler with its options, tried once on a view of two.

    Raises:
        ConfigError: no such sampler, it does not take these options, or it gives no probabilities.
    """
    found = partial(SAMPLERS.find(name), **options)
    try:
        chances_N = np.asarray(found(OpponentView.unplayed(("a", "b"))))
    except TypeError as error:
        raise ConfigError(f"sampler {name!r} with options {dict(options)}: {error}.") from None
    if chances_N.shape != (2,) or not (chances_N >= 0).all() or abs(chances_N.sum() - 1) > 1e-6:
        raise ConfigError(
            f"sampler {name!r} gave {chances_N.tolist()} for two opponents; return one probability "
            "for each, with sum 1."
        )
    return found


def _floored(preference_N: Floats, floor: float) -> Floats:
    """Normalise and mix in the floor; equal probabilities without any preference."""
    if not 0 < floor <= 1:
        raise ConfigError(f"floor={floor}: use a share above 0, at most 1.")
    even_N = np.full(preference_N.size, 1 / preference_N.size)
    total = float(preference_N.sum())
    if total < 1e-10:
        return even_N
    mixed: Floats = (1 - floor) * preference_N / total + floor * even_N
    mixed /= mixed.sum()
    return mixed
