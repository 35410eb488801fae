"""One executor per tier for the whole folder: starting a server costs more than most tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from srl_envs.sandbox import CodeExecutor, Limits
from srl_envs.sandbox import server_process as server
from tests.srl_envs.sandbox.tiers import executor_of

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


@pytest.fixture
def without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the next server run a copy of the code with texts replaced: (file, text, by what)."""

    def replace(*edits: tuple[str, str, str]) -> None:
        copy = tmp_path / "inside"
        shutil.copytree(server._INSIDE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for file, there, gone in edits:
            text = (copy / file).read_text()
            assert there in text, f"{file} has changed; name the new place of {there!r} here"
            (copy / file).write_text(text.replace(there, gone))
        for path in (tmp_path, copy, *copy.rglob("*")):
            path.chmod(0o755)
        monkeypatch.setattr(server, "_INSIDE", str(copy))

    return replace
