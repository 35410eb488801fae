"""Register environments by name; listing loads none of them. `srl_envs.making` makes them."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

from srl_envs import gymnasium_ids
from srl_envs.errors import ConfigError, UnknownEnvironmentError, nearest

if TYPE_CHECKING:  # imported when first made, so that `import srl_envs` stays light
    from srl_envs.core import Mode

PLUGIN_GROUP = "srl_envs.environments"
"""Entry-point group: each entry names a module that calls `register` when imported."""

MODES = ("competitive", "cooperative", "mixed")
BOT_TIERS = ("random", "middle", "strong", "held_out")
Policy = Callable[[str], str]

_ID = re.compile(r"(?P<name>(?:[a-z0-9_.]+/)?[a-z0-9]+(?:_[a-z0-9]+)*)-v(?P<version>\d+)")
_SPECS: dict[str, EnvSpec] = {}
_plugins_loaded = False


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvSpec:
    """What is known of an environment before it is made."""

    id: str
    """``snake_case-vN``; third-party packages may put ``package/`` in front."""
    entry_point: str
    """``package.module:Name`` of a `Game` subclass, or of a callable returning a ParallelEnv."""
    mode: Mode
    seats: int
    """With the default options; an option of the game may change it (`count_seats`)."""
    summary: str
    """One line for listings."""
    bots: Mapping[str, str] = field(default_factory=dict)
    """Scripted policies: name -> ``package.module:factory``; a factory takes a numpy Generator and
    returns a ``text -> text`` callable. `BOT_TIERS` are the standard names; ``held_out`` is for
    rating only."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the game: name -> one line of meaning."""
    numeric: str = ""
    """``package.module:Class`` of the `srl_envs.wrappers.numeric.Features` that make the numeric twin;
    empty where there is none."""
    held_out: bool = False
    """Whether no instance of the eval split can occur in train (`srl_envs.core.Streams.held`), with the
    default options."""

    @property
    def name(self) -> str:
        """The id without its version."""
        return self.id.rpartition("-v")[0]

    @property
    def version(self) -> int:
        """The number after ``-v``."""
        return int(self.id.rpartition("-v")[2])


def register(
    *,
    id: str,
    entry_point: str,
    mode: Mode,
    seats: int = 2,
    summary: str = "",
    bots: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    numeric: str = "",
    held_out: bool = False,
) -> None:
    """Add an environment under a versioned id. Nothing is imported until it is made.

    The arguments are the fields of `EnvSpec`. `gymnasium.make` knows the environment as well, under
    the name that `srl_envs.gymnasium_ids.gymnasium_id` gives.

    Raises:
        ConfigError: the id is malformed or already taken, the mode or the number of seats is
            impossible, or an entry point is not ``package.module:Name``.
    """
    if not _ID.fullmatch(id):
        raise ConfigError(
            f"environment id {id!r}: write snake_case with a version, like 'code_duel-v0'."
        )
    if id.startswith("srl_envs/"):
        raise ConfigError(
            f"environment id {id!r}: 'srl_envs/' is what gymnasium.make puts in front of ids that have "
            f"no package; leave it out, or write your own package."
        )
    if mode not in MODES:
        raise ConfigError(f"{id}: mode={mode!r}; give one of {', '.join(MODES)}.")
    if isinstance(seats, bool) or not isinstance(seats, int) or seats < 1:
        raise ConfigError(f"{id}: seats={seats!r}; give the number of seats, 1 or more.")
    for target in (entry_point, *(bots or {}).values(), *((numeric,) if numeric else ())):
        if not re.fullmatch(r"[\w.]+:[\w.]+", target):
            raise ConfigError(
                f"{id}: entry point {target!r} is not of the form 'package.module:Name'."
            )
    spec = EnvSpec(
        id=id, entry_point=entry_point, mode=mode, seats=seats, summary=summary,
        bots=dict(bots or {}), options=dict(options or {}), numeric=numeric, held_out=held_out,
    )  # fmt: skip
    if _SPECS.get(id, spec) != spec:
        raise ConfigError(
            f"{id} is already registered for {_SPECS[id].entry_point}; a change of rules needs a new version."
        )
    _SPECS[id] = spec
    gymnasium_ids.add(id)


def spec(env_id: str) -> EnvSpec:
    """The spec of an id; an id without version gives the highest version.

    Raises:
        UnknownEnvironmentError: nothing is registered under it; names the nearest id.
    """
    if env_id not in _SPECS:
        _load_plugins()
    if env_id in _SPECS:
        return _SPECS[env_id]
    versions = [s for s in _SPECS.values() if s.name == env_id]
    if versions:
        return max(versions, key=lambda s: s.version)
    ours = env_id.removeprefix("srl_envs/")  # in front of it is what gymnasium puts there
    hint = nearest(ours, _SPECS) or nearest(f"{ours}-v0", _SPECS)
    raise UnknownEnvironmentError(
        f"no environment {env_id!r}.{hint} `srl envs` lists all {len(_SPECS)}."
    )


def list_envs() -> list[str]:
    """Every registered id, sorted; loads the entry points of installed packages, but no game."""
    _load_plugins()
    return sorted(_SPECS)


def no_bot(found: EnvSpec, name: str) -> str:
    """What to tell a caller who names a bot that the environment does not have."""
    if found.bots:
        advice = f"{nearest(str(name), found.bots)} It has: {', '.join(found.bots)}."
    else:
        advice = (
            " It has none: seat a callable that takes the observation's text and returns the reply, a "
            "language model or a person; or name factories of bots in srl_envs.register(bots=...)."
        )
    return f"{found.id} has no bot {name!r}.{advice}"


def load_entry_point(target: str) -> Any:
    """Import ``package.module:Name``."""
    module, _, name = target.partition(":")
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _load_plugins() -> None:
    global _plugins_loaded  # noqa: PLW0603 - entry points are read once a process
    if _plugins_loaded:
        return
    _plugins_loaded = True
    for entry in metadata.entry_points(group=PLUGIN_GROUP):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - foreign code: one broken package must not hide the others
            warnings.warn(
                f"environments of {entry.name!r} ({entry.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}",
                stacklevel=3,
            )
