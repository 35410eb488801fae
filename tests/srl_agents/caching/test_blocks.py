"""Block hashes stand for a whole prefix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.caching.blocks import block_hashes
from srl_envs.errors import ConfigError

tokens = st.lists(st.integers(0, 2**32 - 1), max_size=24)


@given(tokens, tokens, st.integers(1, 5))
def test_two_prompts_share_as_many_hashes_as_whole_blocks_of_their_common_start(
    first: list[int], second: list[int], size: int
) -> None:
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    hashes = zip(block_hashes(first, size), block_hashes(second, size), strict=False)

    equal = [a == b for a, b in hashes]
    whole = common // size
    assert equal == [True] * whole + [False] * (len(equal) - whole)


@given(tokens, st.integers(1, 5))
def test_only_a_partial_block_is_added_on_request(prompt: list[int], size: int) -> None:
    whole = block_hashes(prompt, size)
    every = block_hashes(prompt, size, partial=True)

    assert every[: len(whole)] == whole
    assert len(every) == -(-len(prompt) // size)


def test_other_weights_share_no_block() -> None:
    assert not set(block_hashes([1, 2], 1, model="a")) & set(block_hashes([1, 2], 1, model="b"))


@pytest.mark.parametrize(("prompt", "size"), [([1], 0), ([-1], 1), ([2**32], 1)])
def test_what_cannot_be_hashed_is_refused(prompt: list[int], size: int) -> None:
    with pytest.raises(ConfigError):
        block_hashes(prompt, size)
