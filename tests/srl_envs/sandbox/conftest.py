"""One executor per tier for the whole folder: starting a server costs more than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tiers import executor_of

from srl_envs.sandbox import CodeExecutor, Limits

TIERS = ("namespaces", "landlock", "seccomp")
LIMITS = Limits(cpu_s=0.5, wall_s=20.0, memory_mib=256, output_kib=256)


@pytest.fixture(scope="session")
def executor() -> Iterator[CodeExecutor]:
    with CodeExecutor(LIMITS) as executor:
        yield executor


@pytest.fixture(scope="session", params=TIERS)
def each_tier(request: pytest.FixtureRequest) -> Iterator[CodeExecutor]:
    with executor_of(request.param, LIMITS) as executor:
        yield executor
