"""Register environments by name; listing loads none of them. `srl_envs.api.making` makes them.

A `srl_envs.core.Game` that is not registered is named by its entry point, ``package.module:Class``. Only
`adopt` imports it, so looking up an id runs no code.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from srl_envs import gymnasium_ids
from srl_envs.distribution import EXTRAS
from srl_envs.errors import ConfigError, UnknownEnvironmentError, nearest
from srl_envs.foreign_code import left_out, load_entry_point, may_import, require_known
from srl_envs.retired import RETIRED

if TYPE_CHECKING:  # imported when first made, so that `import srl_envs` stays light
    from srl_envs.core import Mode

PLUGIN_GROUP = "srl_envs.environments"
"""Entry-point group: each entry names a module that calls `register` when imported."""

MODES = ("competitive", "cooperative", "mixed")
BOT_TIERS = ("random", "middle", "strong", "held_out")
Policy = Callable[[str], str]

_ID = re.compile(r"(?P<name>(?:[a-z0-9_.]+/)?[a-z0-9]+(?:_[a-z0-9]+)*)-v(?P<version>\d+)")
_ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_SPECS: dict[str, EnvSpec] = {}
_plugins_loaded = False


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvSpec:
    """What is known of an environment before it is made."""

    id: str
    """``snake_case-vN``; third-party packages may put ``package/`` in front. The entry point where none is
    registered (`adopt`)."""
    entry_point: str
    """``package.module:Name`` of a `Game` subclass, or of a callable returning a ParallelEnv."""
    mode: Mode
    seats: int
    """Number of seats with the default options; an option of the game may change it (`count_seats`)."""
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
    strangers: bool = False
    """Whether a policy is scored in one seat among strangers only: seats talk, and sides are hidden or their
    own choice, so copies of one policy could know each other by a code."""
    runs_programs: bool = False
    """Whether an episode runs programs in the sandbox, which makes it slower than the others."""
    extra: str = ""
    """Extra of the distribution without which it cannot be made; empty where it needs none."""

    @property
    def is_installed(self) -> bool:
        """Whether the modules of its extra are there; nothing is imported."""
        return all(map(find_spec, EXTRAS[self.extra])) if self.extra else True

    @property
    def name(self) -> str:
        """The id without its version."""
        return self.id.rpartition("-v")[0] or self.id

    @property
    def version(self) -> int:
        """The number after ``-v``; 0 where the id is an entry point."""
        return 0 if names_code(self.id) else int(self.id.rpartition("-v")[2])


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
    strangers: bool = False,
    runs_programs: bool = False,
    extra: str = "",
) -> None:
    """Add an environment under a versioned id. Nothing is imported until it is made.

    The arguments are the fields of `EnvSpec`. `gymnasium.make` finds the environment as well, under
    the name that `srl_envs.gymnasium_ids.gymnasium_id` gives.

    Raises:
        ConfigError: the id is malformed or already taken, the mode or the number of seats is
            impossible, or an entry point is not ``package.module:Name``.
    """
    if not _ID.fullmatch(id) and not (id == entry_point and names_code(id)):
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
        if not names_code(target):
            raise ConfigError(
                f"{id}: entry point {target!r} is not of the form 'package.module:Name'."
            )
    spec = EnvSpec(
        id=id, entry_point=entry_point, mode=mode, seats=seats, summary=summary,
        bots=dict(bots or {}), options=dict(options or {}), numeric=numeric, held_out=held_out,
        strangers=strangers, runs_programs=runs_programs, extra=extra,
    )  # fmt: skip
    if _SPECS.get(id, spec) != spec:
        raise ConfigError(
            f"{id} is already registered for {_SPECS[id].entry_point}; a change of rules needs a new version."
        )
    _SPECS[id] = spec
    if not names_code(id):
        gymnasium_ids.add(id)


def names_code(text: str) -> bool:
    """Whether a text has the form ``package.module:Name``."""
    return _ENTRY_POINT.fullmatch(text) is not None


def adopt(env_id: str) -> str:
    """Import the game of an id that is an entry point, so that `spec` finds it under that id.

    It has the bots and options that it is registered with, if it is. Else the options are the arguments
    of the class, and it has no bots. The module's code runs, so the id must not come from a stranger.

    Args:
        env_id: ``package.module:Class``; every other id is left as it is.

    Returns:
        The same id.

    Raises:
        ConfigError: it cannot be imported, or is not a `srl_envs.core.Game`.
    """
    if names_code(env_id) and env_id not in _SPECS:
        register(**asdict(_spec_of_class(env_id)))
    return env_id


def spec(env_id: str) -> EnvSpec:
    """The spec of an id; an id without version gives the highest version.

    Raises:
        UnknownEnvironmentError: nothing is registered under it; names the nearest id, or says what the
            next version does otherwise (`srl_envs.retired`).
    """
    if env_id not in _SPECS:
        _load_plugins()
    if env_id in _SPECS:
        return _SPECS[env_id]
    versions = [s for s in _SPECS.values() if s.name == env_id]
    if versions:
        return max(versions, key=lambda s: s.version)
    ours = env_id.removeprefix("srl_envs/")  # in front of it is what gymnasium puts there
    if ours in RETIRED:
        new = spec(ours.rpartition("-v")[0]).id
        raise UnknownEnvironmentError(
            f"{ours} is gone: in {new} {RETIRED[ours]}. Use {new!r}; scores of the two cannot be compared."
        )
    hint = nearest(ours, _SPECS) or nearest(f"{ours}-v0", _SPECS)
    raise UnknownEnvironmentError(
        f"no environment {env_id!r}.{hint} `srl envs` lists all {len(_SPECS)}."
        f"{left_out(PLUGIN_GROUP)}"
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


def _spec_of_class(target: str) -> EnvSpec:
    """See `adopt`."""
    from srl_envs.core import Game  # noqa: PLC0415 - keeps `import srl_envs` light

    own = {found.entry_point for found in _SPECS.values()}
    require_known(f"environment {target!r}", target, own)
    try:
        game = load_entry_point(target)
    except Exception as error:  # foreign code: the error names its place
        raise ConfigError(
            f"environment {target!r}: it cannot be imported, {type(error).__name__}: {error}. Install the "
            "package that holds it, or set PYTHONPATH to its folder."
        ) from error
    if not (isinstance(game, type) and issubclass(game, Game)):
        raise ConfigError(
            f"environment {target!r}: it is not a subclass of srl_envs.core.Game. Give one, or register it "
            "under an id with srl_envs.register."
        )
    registered = [found for found in _SPECS.values() if found.entry_point == target]
    if registered:
        return replace(max(registered, key=lambda found: found.version), id=target)
    return EnvSpec(
        id=target,
        entry_point=target,
        mode=game.mode,
        seats=game.seats,
        summary=(inspect.getdoc(game) or "").partition("\n")[0],
        options={
            name: f"argument of {game.__name__} ({parameter.default!r})"
            for name, parameter in inspect.signature(game).parameters.items()
            if parameter.default is not parameter.empty
        },
    )


def _load_plugins() -> None:
    global _plugins_loaded  # noqa: PLW0603 - entry points are read once a process
    if _plugins_loaded:
        return
    _plugins_loaded = True
    for entry in metadata.entry_points(group=PLUGIN_GROUP):
        if not may_import(entry.value):
            continue
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - foreign code: one broken package must not hide the others
            warnings.warn(
                f"environments of {entry.name!r} ({entry.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}",
                stacklevel=3,
            )
