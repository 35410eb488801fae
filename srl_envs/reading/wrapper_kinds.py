"""The names of the wrappers, as recipes, match specs and transcripts write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

WRAPPERS = {
    "HistoryWindow": "srl_envs.wrappers.history:HistoryWindow",
    "ObservationNoise": "srl_envs.wrappers.noise:ObservationNoise",
    "PotentialShaping": "srl_envs.wrappers.shaping:PotentialShaping",
    "TurnLimit": "srl_envs.wrappers.turn_limit:TurnLimit",
}
"""Kind -> entry point. A wrapper of another package is its own entry point, ``package.module:Class``."""

_KINDS = {target: kind for kind, target in WRAPPERS.items()}


def kind_of(wrapper: type) -> str:
    """What a wrapper's class is called in `WRAPPERS`, or else its entry point."""
    target = f"{wrapper.__module__}:{wrapper.__qualname__}"
    return _KINDS.get(target, target)


def code_named_by(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Entry points among an environment's wrappers, which making it would import and run.

    Check these names before using options from an untrusted file.
    """
    values = [value for config in options.get("wrappers", ()) for value in config.values()]
    return tuple(v for v in values if isinstance(v, str) and re.fullmatch(r"[\w.<>]+:[\w.<>]+", v))
