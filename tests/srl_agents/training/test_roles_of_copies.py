"""An engine's copy of the base is in memory while it plays, and the learners' own while they learn."""

from __future__ import annotations

from srl_agents.training.parts.memory_roles import needs_of


def test_of_two_copies_one_is_there_in_each_phase() -> None:
    needs = needs_of([""], copied=[""])
    assert needs["play"] == {"engine base", "versions", "engine"}
    assert needs["gradients"] == {"base", "adapters", "critic"}
    assert all(not {"base", "engine base"} <= roles for roles in needs.values())


def test_a_base_that_is_shared_is_there_in_both() -> None:
    needs = needs_of(["small", "large"], copied=["large"])
    assert {"base of small", "engine base of large"} <= needs["play"]
    assert "base of large" not in needs["play"]
    assert "base of small" in needs["gradients: small"]
