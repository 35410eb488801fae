"""One executor per tier for the whole folder: starting a server costs more than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srl_envs.errors import SandboxError
from srl_envs.sandbox import CodeExecutor, Limits

TIERS = ("namespaces", "landlock", "seccomp")
LIMITS = Limits(cpu_s=0.5, wall_s=20.0, memory_mib=256, output_kib=256)


def _executor(tier: str) -> CodeExecutor:
    try:
        return CodeExecutor(LIMITS, isolation=tier)
    except SandboxError as error:
        pytest.skip(f"this kernel does not grant {tier}: {error}")


@pytest.fixture(scope="session")
def executor() -> Iterator[CodeExecutor]:
    with _executor("strongest") as executor:
        yield executor


@pytest.fixture(scope="session", params=TIERS)
def each_tier(request: pytest.FixtureRequest) -> Iterator[CodeExecutor]:
    with _executor(request.param) as executor:
        yield executor
