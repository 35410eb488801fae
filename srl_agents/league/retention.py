"""Choice of frozen versions that stay opponents: recent ones, ever fewer old ones, and strong ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionSettings:
    """Versions that stay beside the most recent ones (``past_limit``)."""

    thinning: bool = False
    """Of older versions keep every second, then every fourth and so on, each time age doubles."""
    hard_below: float = 0.0
    """Keep a version that some main takes fewer points per game from; 0 keeps none."""
    support: bool = False
    """Keep versions in the equilibrium of the payoffs."""

    def __post_init__(self) -> None:
        if not 0 <= self.hard_below <= 1:
            raise ConfigError(f"hard_below={self.hard_below}: points per game lie in [0, 1].")


def kept(
    versions: Sequence[str],
    ordinals: Mapping[str, int],
    recent: int,
    settings: RetentionSettings,
    *,
    hardness: Mapping[str, float] | None = None,
    support: Collection[str] = (),
) -> list[str]:
    """The versions of one learner that stay, oldest first.

    Args:
        versions: oldest first.
        ordinals: version -> how many of its learner were frozen before it; what thinning counts.
        recent: newest versions that stay whatever else.
        settings: the other reasons to stay.
        hardness: version -> least points per game that a main takes from it.
        support: versions in the equilibrium.

    A version that thinning drops would not have been needed later either: the kept ordinals of age
    a are the multiples of a power of two, and the powers grow with age.
    """
    newest = ordinals[versions[-1]] if versions else 0
    scores = hardness or {}

    def stays(place: int, version: str) -> bool:
        if place >= len(versions) - recent:
            return True
        if (
            settings.thinning
            and ordinals[version] % _spacing(newest - ordinals[version], recent) == 0
        ):
            return True
        if scores.get(version, 1.0) < settings.hard_below:
            return True
        return settings.support and version in support

    return [version for place, version in enumerate(versions) if stays(place, version)]


def _spacing(age: int, recent: int) -> int:
    """2 from age ``recent`` on, 4 from twice that, 8 from four times."""
    spacing = 2
    while age >= recent * spacing:
        spacing *= 2
    return spacing
