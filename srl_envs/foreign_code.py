"""Code that files name: the one place that imports it, and the switch that refuses all but SRL's own.

Recipes, rubrics, match specs and bundles may name ``package.module:Name``, which we then import and run with
the user's rights. With ``--no-foreign-code``, or SRL_NO_FOREIGN_CODE=1 in the environment, such a name is
refused with one line. Programs that the sandbox runs are not meant: they run there under its limits.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from srl_envs.errors import ConfigError, ForeignCodeError, nearest

OPTION = "--no-foreign-code"
"""Option of every command that refuses foreign code."""
VARIABLE = "SRL_NO_FOREIGN_CODE"
"""Environment variable that does the same, and that processes which we start inherit."""
_OFF = frozenset({"", "0", "false", "no", "off"})
_OWN = frozenset({"srl_envs", "srl_agents", "leaderboards"})


def refused() -> bool:
    """Whether this process refuses foreign code; any value but 0, false, no and off switches it on."""
    return os.environ.get(VARIABLE, "").strip().lower() not in _OFF


@contextmanager
def refusing() -> Iterator[None]:
    """Inside, this process and those that it starts refuse foreign code."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def inherited() -> dict[str, str]:
    """Environment variables that carry the switch to a process of another machine."""
    return {VARIABLE: "1"} if refused() else {}


def refuse(what: str, advice: str) -> None:
    """Raise where foreign code is refused.

    Args:
        what: the thing that would run code, and where it stands.
        advice: what to do without it.

    Raises:
        ForeignCodeError: the switch is on.
    """
    if refused():
        raise ForeignCodeError(
            f"{what} runs code from outside SRL, which {OPTION} ({VARIABLE}=1) refuses. {advice} Leave the "
            "option out only for code that you have read."
        )


def may_import(target: str) -> bool:
    """Whether ``package.module`` or ``package.module:Name`` may be imported: always, or SRL's own only."""
    return not refused() or is_own(target)


def is_own(target: str) -> bool:
    """Whether ``package.module`` or ``package.module:Name`` is SRL's."""
    return target.partition(":")[0].partition(".")[0] in _OWN


def left_out(group: str) -> str:
    """A sentence on the installed packages whose entry points of a group the switch hides; empty for none."""
    hidden = sorted({e.name for e in metadata.entry_points(group=group) if not may_import(e.value)})
    if not hidden:
        return ""
    return f" {OPTION} leaves out what installed packages add: {', '.join(hidden)}."


def load_entry_point(target: str) -> Any:
    """Import ``package.module:Name`` that the program or an installed package registered.

    Raises:
        ForeignCodeError: it is not SRL's own, and the switch is on.
        ModuleNotFoundError, AttributeError: the module or name does not exist; names the nearest. Beside them
            what the module itself raises.
    """
    if not may_import(target):
        refuse(repr(target), "Use one of SRL's own names.")
    module, _, name = target.partition(":")
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not f"{module}.".startswith(f"{missing}."):  # the module is there, and lacks another
            raise
        message = f"no module {missing!r}{_nearest_module(missing)}{_moved_to(target)}"
        raise ModuleNotFoundError(message, name=missing) from None
    for part in name.split("."):
        if not hasattr(value, part):
            hint = _in_brackets(nearest(part, dir(value)))
            raise AttributeError(f"{module} has no {part!r}{hint}")
        value = getattr(value, part)
    return value


def load_installed(entry: metadata.EntryPoint) -> Any:
    """What an installed package registered under an entry point.

    Raises:
        ConfigError: its module or name does not exist; names the package and the nearest. Beside it what the
            module itself raises.
    """
    try:
        return entry.load()
    except (AttributeError, ModuleNotFoundError) as error:
        if is_own(entry.value):
            raise
        try:
            load_entry_point(entry.value)
        except (AttributeError, ModuleNotFoundError) as named:
            missing = getattr(named, "name", None) or entry.module
            if not f"{entry.module}.".startswith(f"{missing}."):
                raise
            package = f"the package {entry.dist.name}" if entry.dist else "a package"
            raise ConfigError(
                f"{package} registers {entry.name} as {entry.value}, but {named}. Mend it, or uninstall it."
            ) from error
        raise


def _moved_to(target: str) -> str:
    """Where SRL has the class or function of an old name; empty if that is unclear."""
    module, _, name = target.partition(":")
    if not is_own(target) or not name:
        return ""
    (root,) = importlib.import_module(module.partition(".")[0]).__path__
    defined = re.compile(rf"^(?:class|def) {re.escape(name)}\b", re.MULTILINE)
    found = [p for p in Path(root).rglob("*.py") if defined.search(p.read_text(encoding="utf-8"))]
    if len(found) != 1:
        return ""
    place = found[0].relative_to(Path(root).parent).with_suffix("")
    return f" (it moved: write {'.'.join(place.parts)}:{name})"


def _nearest_module(missing: str) -> str:
    parent, _, last = missing.rpartition(".")
    folders = getattr(importlib.import_module(parent), "__path__", []) if parent else None
    return _in_brackets(nearest(last, (found.name for found in pkgutil.iter_modules(folders))))


def _in_brackets(hint: str) -> str:
    return f" ({hint.strip()})" if hint else ""


def require_known(what: str, target: str, known: Collection[str]) -> None:
    """Refuse a name from a file that SRL does not offer for its place, with the switch on.

    Modules of SRL are treated alike: a file that may name any function of SRL could name one that starts
    programs.

    Args:
        what: the place and the name, for the message.
        target: ``package.module:Name``.
        known: targets that SRL offers there.

    Raises:
        ForeignCodeError: it is none of them.
    """
    if target not in known:
        refuse(what, "Use one of SRL's own names.")
