"""Settings for all tests."""

import gc
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest
from hypothesis import HealthCheck, settings

from srl_envs.distribution import install_command
from srl_envs.errors import SRLError
from srl_envs.registry import EnvSpec, spec

# No deadline: a loaded machine must not fail a test. Derandomised: a red build comes from the code.
settings.register_profile(
    "srl",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("srl")

# A shell that starts the tests in the background has them ignore interrupts, and their children too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_GAME = re.compile(r"[a-z_0-9]+-v\d+")
"""Id of a game at the start of a parameter, such as the name of a recorded episode."""
_MANY_MODULES = 200
_frozen_at = [0]
"""Number of imported modules when objects were last frozen."""


def pytest_collection() -> None:
    """Collect no garbage while modules are imported and tests are made: nothing of them is garbage."""
    gc.disable()


def needed_extra(parameter: object) -> str:
    """The extra that a parameter of a test lacks, where it is a game that needs one; else ""."""
    if isinstance(parameter, EnvSpec):
        return "" if parameter.is_installed else parameter.extra
    name = parameter.name if isinstance(parameter, Path) else parameter
    found = _GAME.match(name) if isinstance(name, str) else None
    try:
        return needed_extra(spec(found[0])) if found else ""
    except SRLError:
        return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what tests a game whose extra is not installed, and name the extra."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        missing = set(map(needed_extra, callspec.params.values())) - {""} if callspec else set()
        for extra in missing:
            item.add_marker(pytest.mark.skip(reason=f"not installed: {install_command(extra)}"))


def pytest_collection_finish() -> None:
    """Keep later collections of garbage from walking through libraries that were imported."""
    if len(sys.modules) > _frozen_at[0] + _MANY_MODULES:
        gc.collect()  # what is frozen is never freed
        gc.freeze()
        _frozen_at[0] = len(sys.modules)
    gc.enable()


@pytest.fixture(autouse=True)
def _gymnasium_registry() -> Iterator[None]:
    """What a test registers with us is known to gymnasium, too, and ends with the test."""
    before = set(gymnasium.registry)
    yield
    for name in set(gymnasium.registry) - before:
        del gymnasium.registry[name]
