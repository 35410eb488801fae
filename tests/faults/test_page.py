"""The page of faults agrees with the tables, and the tables are complete."""

from __future__ import annotations

from srl_agents.recipes.sections.fault_kinds import FAULTS
from tests.faults.injections import TABLE
from tests.faults.page import page


def test_the_page_has_every_kind_and_every_injection() -> None:
    text = page()
    assert all(f"| `{name}` | {kind.what} |" in text for name, kind in FAULTS.items())
    assert all(f"| {one.how} |" in text for one in TABLE)


def test_every_fault_is_injected_and_its_policy_is_one_that_it_may_have() -> None:
    assert {one.fault for one in TABLE} >= set(FAULTS)
    assert all(kind.policy in kind.may for kind in FAULTS.values())
    assert len(TABLE) >= 40
