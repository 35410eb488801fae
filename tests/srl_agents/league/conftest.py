"""A store with three agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srl_agents.league.store.history import LeagueStore
from tests.srl_agents.league.stored_matches import AGENTS, agent


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LeagueStore]:
    with LeagueStore(tmp_path / "league.db") as store:
        for name in AGENTS:
            store.add_agent(agent(name))
        yield store
