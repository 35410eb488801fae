"""Spaces of texts: any character passes through what gymnasium does with an observation."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete, flatten, flatten_space, unflatten
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from hypothesis import given
from hypothesis import strategies as st

from srl_envs import make_single
from srl_envs.turns.spaces import AnyText

LONGEST = 30
ANY_CHARACTER = st.characters(exclude_categories=())  # lone surrogates and NUL as well
TEXTS = st.text(ANY_CHARACTER, max_size=LONGEST)
REPLIES = ("<action>1 1</action>", "Zażółć 🦊\x00 – no move", "")


class Echo(gymnasium.Env[dict[str, Any], str]):
    """Shows the last reply and the number of steps."""

    def __init__(self) -> None:
        self.observation_space = Dict({"text": AnyText(LONGEST), "turn": Discrete(9)})
        self.action_space = AnyText(LONGEST)

    def reset(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        self.turn = 0
        return {"text": "Ω", "turn": 0}, {}

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.turn += 1
        return {"text": action, "turn": self.turn}, 0.0, False, False, {}


def put(space: AnyText, place: int, text: Any, memory: Any) -> None:
    """Gymnasium's hints ask for an array, whatever the space holds."""
    write_to_shared_memory(space, place, text, memory)


def game() -> gymnasium.Env[Any, str]:
    return make_single("nim-v0", opponents="random")


@given(texts=st.lists(TEXTS, min_size=3, max_size=3), later=TEXTS)
def test_any_text_comes_out_of_shared_memory_as_it_went_in(texts: list[str], later: str) -> None:
    space = AnyText(LONGEST)
    memory = create_shared_memory(space, n=3)
    seen = read_from_shared_memory(space, memory, n=3)
    for place, text in enumerate(texts):
        put(space, place, text, memory)
    assert [*seen] == texts
    put(space, 1, later, memory)
    assert [*seen] == [texts[0], later, texts[2]]


@given(text=TEXTS)
def test_any_text_can_be_flattened_and_back(text: str) -> None:
    space = AnyText(LONGEST)
    flat: Any = flatten(space, text)
    assert flatten_space(space).contains(flat)
    assert unflatten(space, flat) == text


@given(text=TEXTS)
def test_any_text_and_character_is_in_the_space(text: str) -> None:
    space = AnyText(LONGEST)
    assert space.contains(text)
    assert all(c in space.character_set for c in text)
    assert all(space.character_list[space.character_index(c)] == c for c in text)
    assert not space.contains(text + "x" * LONGEST + "x")


def test_a_text_that_is_too_long_for_shared_memory_changes_no_neighbour() -> None:
    space = AnyText(4)
    memory = create_shared_memory(space, n=2)
    put(space, 1, "safe", memory)
    with pytest.raises(ValueError, match="broadcast"):
        put(space, 0, "too long", memory)
    assert [*read_from_shared_memory(space, memory, n=2)] == ["", "safe"]


def vectors(make: Any, **options: Any) -> list[VectorEnv[Any, Any, Any]]:
    """The same two environments in every vector of gymnasium."""
    shared = [AsyncVectorEnv([make] * 2, shared_memory=True, **options)]
    return [SyncVectorEnv([make] * 2), AsyncVectorEnv([make] * 2, shared_memory=False), *shared]


@pytest.mark.parametrize("make", [Echo, game])
def test_all_vectors_show_the_same_texts(make: Any) -> None:
    histories = []
    for vec in vectors(make):
        seen, _ = vec.reset(seed=3)
        history = [seen]
        for reply in REPLIES:
            seen, rewards, *_ = vec.step((reply, reply + "!"))
            history += [seen, rewards]
        vec.close()
        histories.append([plain(item) for item in history])
    assert histories[1] == histories[0]
    assert histories[2] == histories[0]


def plain(item: Any) -> Any:
    """Lists for arrays, so that == compares."""
    if isinstance(item, dict):
        return {key: np.asarray(value, dtype=object).tolist() for key, value in item.items()}
    return item.tolist()


def test_without_copies_the_texts_follow_the_environments() -> None:
    vec = AsyncVectorEnv([Echo] * 2, copy=False)
    seen, _ = vec.reset()
    assert [*seen["text"]] == ["Ω", "Ω"]
    vec.step(("żółw", "🦊"))
    assert [*seen["text"]] == ["żółw", "🦊"]
    vec.close()


def test_gymnasium_makes_asynchronous_vectors_by_name() -> None:
    vec = gymnasium.make_vec("srl_envs/nim-v0", num_envs=2, vectorization_mode="async")
    seen, _ = vec.reset(seed=0)
    vec.close()
    assert all("Reply with" in text for text in seen["text"])
