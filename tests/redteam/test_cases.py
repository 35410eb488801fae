"""Faults that were found by the red team and fixed stay fixed."""

from pathlib import Path

import pytest

from srl_envs.redteam.attack import check_case
from srl_envs.redteam.findings import load_case

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_fault_is_gone(path: Path) -> None:
    assert check_case(load_case(path).case) is None
