"""Settings for tests of wrappers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def _logs_of_stable_baselines3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each of its models makes a folder of logs, which else stays in /tmp."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SB3_LOGDIR", str(tmp_path_factory.mktemp("sb3")))
        yield
