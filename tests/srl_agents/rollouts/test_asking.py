"""What of prompts a cache could have had."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srl_agents.rollouts.asking import least_computed


@given(prompts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=8))
def test_the_least_that_is_computed_is_every_prefix_once_and_each_last_token(
    prompts: list[list[int]],
) -> None:
    prefixes = {tuple(p[:n]) for p in prompts for n in range(1, len(p))}
    assert least_computed(prompts) == len(prefixes) + len(prompts)
