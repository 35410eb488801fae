"""What a reader of one update has to read: few files, and none of a feature that the recipe leaves off."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.learning.update_path import lines_of, update_path

MOST_FILES, MOST_LINES = 79, 19_500
"""Numbers of the recipe below. A change that needs more gives the reason in docs/design/architecture.md."""
OFF = (
    "srl_agents/caching/objectives.py",
    "srl_agents/coordination/processes.py",
    "srl_agents/credit/forks.py",
    "srl_agents/engines/embedded/seats.py",
    "srl_agents/recipes/settings.py",
    "srl_agents/rollouts/branches.py",
    "srl_agents/trainers/mixed_gradients.py",
    "srl_agents/training/loop/shared_gradients.py",
    "srl_agents/training/parts/budgets.py",
    "srl_envs/registry.py",
)
"""Modules of features that quickstart-tiny leaves off, and of what is decided before the first update."""


@pytest.mark.slow
def test_an_update_goes_through_few_files_and_none_of_what_is_off() -> None:
    found = update_path("quickstart-tiny", overrides=["evaluation.final_pairs=1"])
    assert Path("srl_agents/training/loop/phases.py") in found
    assert [name for name in OFF if Path(name) in found] == []
    lines = sum(map(lines_of, found))
    assert (len(found) <= MOST_FILES, lines <= MOST_LINES) == (True, True), (len(found), lines)
