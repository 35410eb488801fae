"""Settings for all tests."""

import gc
import signal
import sys
from collections.abc import Iterator

import gymnasium
import pytest
from hypothesis import HealthCheck, settings

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

_MANY_MODULES = 200
_frozen_at = [0]
"""Number of imported modules when objects were last frozen."""


def pytest_collection() -> None:
    """Collect no garbage while modules are imported and tests are made: nothing of them is garbage."""
    gc.disable()


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
