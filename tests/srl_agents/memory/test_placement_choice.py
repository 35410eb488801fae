"""Where versions are sampled: what is chosen can do what is asked, and contradictions are refused by name."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from srl_agents.memory.placements import (
    Placement,
    PlacementFacts,
    choose_placement,
    placement_fault,
)

FACTS = st.builds(
    PlacementFacts,
    engine=st.sampled_from(["transformers", "vllm"]),
    has_weights=st.booleans(),
    is_server=st.booleans(),
    beside=st.booleans(),
    fixed=st.sampled_from(["", "weights on a GPU cannot be mapped"]),
).filter(lambda facts: facts.has_weights or not facts.is_server)


@given(FACTS)
def test_what_is_chosen_is_never_refused_and_says_why(facts: PlacementFacts) -> None:
    choice = choose_placement(facts)
    assert placement_fault(choice.placement, facts) == ""
    assert choice.reason


@given(FACTS, st.sampled_from(get_args(Placement)))
def test_processes_apart_are_always_allowed_and_a_refusal_names_the_line(
    facts: PlacementFacts, placement: Placement
) -> None:
    fault = placement_fault(placement, facts)
    assert not (fault and placement == "disaggregated")
    assert fault == "" or fault.startswith(f"placement={placement!r}: ")


@given(FACTS)
def test_a_second_copy_is_chosen_only_where_one_cannot_be_shared(facts: PlacementFacts) -> None:
    if choose_placement(facts).placement != "hybrid":
        assert placement_fault("hybrid", facts)
