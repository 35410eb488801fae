"""What the phases of an update hold."""

from __future__ import annotations

from dataclasses import fields

import pytest

from srl_agents.training.loop.phases import PHASES

MOST = 10


@pytest.mark.parametrize("name", PHASES)
def test_a_phase_holds_a_few_parts_and_never_all_of_them(name: str) -> None:
    held = [str(own.type) for own in fields(PHASES[name])]  # type: ignore[arg-type]
    assert len(held) <= MOST
    assert not {"Parts", "Learning", "Ground"} & {*held}
