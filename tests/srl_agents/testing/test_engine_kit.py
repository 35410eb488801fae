"""The kit of engines: sound engines pass, and each fault is found by the check that is for it."""

from __future__ import annotations

import inspect

import pytest

from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.testing.advice import hold
from srl_agents.testing.engine_kit import CHECKS, check_engine
from srl_agents.testing.engine_trial import Trial
from srl_envs.errors import ConfigError
from srl_envs.testing import ConformanceError
from tests.srl_agents.testing import broken_engines
from tests.srl_agents.testing.broken_engines import Sound

FAULTS = [
    fault
    for _, fault in inspect.getmembers(broken_engines, inspect.isclass)
    if issubclass(fault, Sound) and fault is not Sound
]


def update(number: int, handle: str = "there") -> WeightUpdate:
    version = WeightVersion("alice", number, f"{number:016x}")
    return WeightUpdate(version=version, tensors=(), handle=handle)


UPDATES, BROKEN = (update(1), update(2)), (update(3, handle=""),)


def trial(engine: type[Sound]) -> Trial:
    return Trial(engine, UPDATES, BROKEN, 12, 0.5)


def test_a_sound_engine_passes() -> None:
    check_engine(Sound, updates=UPDATES, broken=BROKEN, requests=12)


def test_every_check_has_a_fault_that_it_must_find() -> None:
    assert {(fault.__doc__ or "").partition(":")[0] for fault in FAULTS} == set(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_found(fault: type[Sound]) -> None:
    name = (fault.__doc__ or "").partition(":")[0]
    with pytest.raises(ConformanceError, match=f"(?s)my engine, {name}: .*What to do: ") as caught:
        hold("my engine", {name: CHECKS[name]}, trial(fault))
    assert CHECKS[name].advice in str(caught.value)


def test_an_engine_with_versions_needs_two_to_be_tried() -> None:
    with pytest.raises(ConfigError, match="give two"):
        check_engine(Sound, updates=UPDATES[:1])


def test_a_class_without_a_method_is_no_engine() -> None:
    class Mute:
        capabilities = None

        async def close(self) -> None:
            """Nothing."""

    with pytest.raises(ConformanceError, match="method"):
        check_engine(Mute)  # type: ignore[arg-type]
