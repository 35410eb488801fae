"""Potentials by name: functions that rate a seat's position, for shaped rewards and turn credit."""

from __future__ import annotations

from collections.abc import Callable

from srl_envs.errors import ConfigError, ForeignCodeError
from srl_envs.foreign_code import load_entry_point, require_known

Potential = Callable[[str, int], float]
"""(text that the seat sees, seat) -> how good the seat's position is, in reward units."""
OWN = (
    "srl_envs.families.reasoning.math_duel:lead",
    "srl_envs.families.cards.hanabi_mini:points_so_far",
)
"""Potentials that come with the games."""


def find_potential(target: str) -> Potential:
    """The function that ``package.module:function`` names.

    Raises:
        ConfigError: there is none.
        ForeignCodeError: it is not SRL's own, and the process refuses such code.
    """
    require_known(f"potential={target!r}", target, OWN)
    try:
        found = load_entry_point(target)
    except ForeignCodeError:
        raise
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"potential={target!r} cannot be loaded: {type(error).__name__}: {error}. Write "
            "package.module:function."
        ) from None
    if not callable(found) or isinstance(found, type):
        raise ConfigError(f"potential={target!r} is not a function of (text, seat); name one.")
    return found  # type: ignore[no-any-return] # checked to be callable
