"""Put wrappers around an environment from plain values, as `srl_envs.make` does."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from srl_envs.errors import ConfigError, nearest, within
from srl_envs.foreign_code import load_entry_point, require_known
from srl_envs.parallel import GameEnv
from srl_envs.reading.settings import describe
from srl_envs.reading.wrapper_kinds import WRAPPERS
from srl_envs.wrappers.base import Wrapper


def wrapped(env: Any, wrappers: Sequence[Mapping[str, Any]]) -> GameEnv:
    """The environment with wrappers around it.

    Args:
        env: what goes inside.
        wrappers: from the inside out, each ``{"kind": ..., **arguments}``. A kind is a name in
            `WRAPPERS` or ``package.module:Class``.

    Returns:
        An environment whose ``options["wrappers"]`` make the same wrappers again.

    Raises:
        ConfigError: names the wrapper that is unknown or does not fit.
    """
    if not isinstance(wrappers, (list, tuple)):
        raise ConfigError(f"wrappers: expected a list, found {describe(wrappers)}.")
    for number, given in enumerate(wrappers):
        env = _around(env, given, f"wrappers[{number}]")
    return env  # type: ignore[no-any-return] # what was given, or a Wrapper


def _around(env: Any, given: Mapping[str, Any], place: str) -> Wrapper:
    if not isinstance(given, Mapping) or not isinstance(given.get("kind"), str):
        raise ConfigError(
            f"{place}: write `kind: NAME` and the wrapper's arguments, not {given!r}."
        )
    arguments = {name: value for name, value in given.items() if name != "kind"}
    place = f"{place}: {given['kind']}"
    target = _target(given["kind"], place)
    if not isinstance(env, GameEnv):
        raise ConfigError(
            f"{place}: goes only around environments of srl_envs.make; this is a "
            f"{type(env).__name__}."
        )
    _check_arguments(target, arguments, place)
    try:
        made = target(env, **arguments)
    except ConfigError as error:
        raise within(place, error) from None
    untold = [name for name, value in arguments.items() if _differs(made.config, name, value)]
    if untold:
        raise ConfigError(
            f"{place}: its settings() do not return {', '.join(untold)}, so no transcript could be "
            "replayed. Return every argument as JSON values, or put it around the environment yourself."
        )
    return made


def _target(kind: str, place: str) -> type[Wrapper]:
    entry_point = WRAPPERS.get(kind, kind)
    if ":" not in entry_point:
        raise ConfigError(
            f"{place} is not a wrapper.{nearest(kind, WRAPPERS)} Known: {', '.join(WRAPPERS)}, or "
            "package.module:Class."
        )
    require_known(place, entry_point, WRAPPERS.values())
    try:
        target = load_entry_point(entry_point)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{place} cannot be loaded: {error}.") from None
    if not (isinstance(target, type) and issubclass(target, Wrapper)):
        raise ConfigError(f"{place} is not a subclass of srl_envs.wrappers.Wrapper.")
    return target


def _check_arguments(target: type[Wrapper], arguments: Mapping[str, Any], place: str) -> None:
    _, *rest = inspect.signature(target).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in rest):
        return
    known = {parameter.name: parameter for parameter in rest}
    for name in arguments:
        if name not in known:
            raise ConfigError(
                f"{place}: unknown argument {name!r}.{nearest(name, known)} "
                f"It takes: {', '.join(known) or 'none'}."
            )
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise ConfigError(f"{place}: give {name}.")


def _differs(config: Mapping[str, Any], name: str, value: Any) -> bool:
    return name not in config or bool(config[name] != value)
