"""Every test has keys of its own: none is made in the account that runs the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRL_KEYS", str(tmp_path_factory.mktemp("keys")))
