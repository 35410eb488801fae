"""Every registered environment under `gymnasium.make`, which imports gymnasium only on use.

Importing gymnasium costs twice as much as importing srl_envs, and most programs need only one of
the two. So ids are passed on at once where gymnasium is loaded, and else when it is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_MODULE = "gymnasium.envs.registration"
_waiting: list[str] = []
"""Ids to register once gymnasium is imported."""


def gymnasium_id(env_id: str) -> str:
    """The name of an environment in `gymnasium.make`.

    ``code_duel-v0`` is ``srl_envs/code_duel-v0``; an id with a package keeps it, with hyphens for dots,
    which gymnasium does not allow there.
    """
    package, _, name = env_id.rpartition("/")
    return f"{package.replace('.', '-') or 'srl_envs'}/{name}"


def add(env_id: str) -> None:
    """Let `gymnasium.make` find an environment, as `srl_envs.make_single` makes it."""
    registration = sys.modules.get(_MODULE)
    if hasattr(registration, "register"):
        _register(registration, env_id)
    else:
        _waiting.append(env_id)


def _register(registration: Any, env_id: str) -> None:
    name = gymnasium_id(env_id)
    if name not in registration.registry:
        registration.register(
            id=name, entry_point="srl_envs.api.making:make_single", kwargs={"env_id": env_id}
        )


class _AfterImport(MetaPathFinder):
    """Registers what waits as soon as gymnasium's own registry exists."""

    def __init__(self) -> None:
        self._searching = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for every other module."""
        if name != _MODULE or self._searching:
            return None
        self._searching = True
        try:
            found = importlib.util.find_spec(name)
        finally:
            self._searching = False
        if found is not None and found.loader is not None:
            load = found.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                sys.meta_path.remove(self)
                while _waiting:
                    _register(module, _waiting.pop(0))

            found.loader.exec_module = exec_module  # type: ignore[method-assign]
        return found


if _MODULE not in sys.modules:
    sys.meta_path.insert(0, _AfterImport())
