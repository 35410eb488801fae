"""Games for one or more players keep the whole contract with one player, too."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from srl_envs import register, registry, spec
from srl_envs.families.coding.code_duel import CodeDuel
from srl_envs.families.coding.teams.test_and_code import CodeAndTests
from srl_envs.families.reasoning.math_duel import MathDuel
from srl_envs.families.reasoning.solve_and_verify import SolveAndVerify
from srl_envs.families.workflow.library.research_room import ResearchRoom
from srl_envs.families.workflow.plan_path import PlanPath
from srl_envs.testing import CHECKS


class MathTask(MathDuel):
    """Registered by a user who needs only the task."""

    def __init__(self) -> None:
        super().__init__(players=1)


class CodeTask(CodeDuel):
    """The same for programs."""

    def __init__(self) -> None:
        super().__init__(players=1)


class PathTask(PlanPath):
    """The lone version of a team."""

    def __init__(self) -> None:
        super().__init__(players=1)


class VerifiedTask(SolveAndVerify):
    """The lone version of another."""

    def __init__(self) -> None:
        super().__init__(players=1)


class LoneCoder(CodeAndTests):
    """The lone version of a third."""

    def __init__(self) -> None:
        super().__init__(players=1)


class LoneReader(ResearchRoom):
    """The lone version of a fourth."""

    def __init__(self) -> None:
        super().__init__(players=1)


@pytest.mark.parametrize(
    ("duel", "task", "episodes"),
    [
        ("math_duel-v0", "MathTask", 4),
        pytest.param("code_duel-v0", "CodeTask", 1, marks=pytest.mark.nightly),
        pytest.param("plan_path-v0", "PathTask", 1, marks=pytest.mark.nightly),
        pytest.param("solve_and_verify-v0", "VerifiedTask", 4, marks=pytest.mark.nightly),
        pytest.param("research_room-v0", "LoneReader", 1, marks=pytest.mark.nightly),
        pytest.param("test_and_code-v0", "LoneCoder", 1, marks=pytest.mark.nightly),
    ],
)
def test_one_player_alone_has_a_game_that_keeps_the_contract(
    duel: str, task: str, episodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    mode = "cooperative" if spec(duel).mode == "cooperative" else "mixed"
    single = {"id": "tests/single-v0", "entry_point": f"{__name__}:{task}", "seats": 1}
    register(**{**asdict(spec(duel)), **single, "mode": mode, "options": {}})
    for check in CHECKS.values():
        check("tests/single-v0", episodes)
