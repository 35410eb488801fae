"""Template arguments, thoughts' markers and earlier turns in a prompt, token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srl_envs
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.prompt import EarlierTurn, MemorySettings, Prompt, ThoughtSettings
from srl_envs.errors import ConfigError
from srl_envs.turns.grammar import action
from tests.thinking_model import thinking_tokenizer

PLAIN = thinking_tokenizer()
OPENS = thinking_tokenizer(opens=True)
THOUGHTS = ThoughtSettings(budget=8)


def chat(tokenizer: Any = PLAIN, **prompt: Any) -> ChatTokenizer:
    return ChatTokenizer(tokenizer, Prompt(**prompt))


def text_of(ids: tuple[int, ...]) -> str:
    return str(PLAIN.decode(list(ids)))


def test_an_argument_reaches_the_template_and_an_unknown_one_is_refused() -> None:
    plain = chat().encode_prompt("Go.")
    closed = chat(template_arguments={"enable_thinking": False}).encode_prompt("Go.")
    assert closed[: len(plain)] == plain
    assert text_of(closed[len(plain) :]) == "<think>\n\n</think>\n\n"
    assert chat(template_arguments={"enable_thinking": True}).encode_prompt("Go.") == plain
    with pytest.raises(ConfigError, match="enable_thinking"):
        chat(template_arguments={"enable_thinkin": True})
    with pytest.raises(ConfigError, match="messages"):
        chat(template_arguments={"messages": []})


@pytest.mark.parametrize("tokenizer", [PLAIN, OPENS], ids=["marker is ours", "template opens"])
def test_a_prompt_with_thoughts_ends_in_the_marker_that_opens_them(tokenizer: Any) -> None:
    own = chat(tokenizer, thoughts=THOUGHTS)
    ids = own.encode_prompt("Go.")
    assert text_of(ids).rstrip().endswith("assistant\n<think>")
    assert text_of(ids).count("<think>") == 1
    assert ids[len(ids) - len(own.opening) :] == own.opening
    with pytest.raises(ConfigError, match="ends thoughts at once"):
        chat(thoughts=THOUGHTS, template_arguments={"enable_thinking": False})


def turns_of(sizes: list[tuple[int, int, bool]]) -> tuple[EarlierTurn, ...]:
    """(thought tokens, reply tokens, whether the message was ended) each."""
    end = PLAIN.eos_token_id
    return tuple(
        EarlierTurn(
            f"board {k}", (40,) * think + (50 + k,) * reply + ((end,) if ended else ()), think
        )
        for k, (think, reply, ended) in enumerate(sizes)
    )


HISTORIES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 6), st.booleans()), max_size=6
).map(turns_of)


@settings(max_examples=40, deadline=None)
@given(HISTORIES, st.integers(1, 160), st.booleans(), st.sampled_from([PLAIN, OPENS]))
def test_the_newest_whole_turns_within_the_limit_are_shown_with_their_exact_tokens(
    earlier: tuple[EarlierTurn, ...], limit: int, thoughts: bool, tokenizer: Any
) -> None:
    memory = MemorySettings(tokens=limit, thoughts=thoughts)
    own = chat(tokenizer, thoughts=THOUGHTS, memory=memory)
    bare = chat(tokenizer, thoughts=THOUGHTS).encode_prompt("now")
    ids = own.encode_prompt("now", (), earlier)
    text = text_of(ids)
    kept = [k for k in range(len(earlier)) if f"board {k}<" in text]
    assert len(ids) - len(bare) <= limit
    assert kept == list(range(len(earlier)))[len(earlier) - len(kept) :], "oldest first"
    whole = chat(
        tokenizer, thoughts=THOUGHTS, memory=MemorySettings(tokens=10**6, thoughts=thoughts)
    )
    assert ids == whole.encode_prompt("now", (), earlier[len(earlier) - len(kept) :])
    if len(kept) < len(earlier):
        more = whole.encode_prompt("now", (), earlier[len(earlier) - len(kept) - 1 :])
        assert len(more) - len(bare) > limit, "one more would have been too many"
    for k in kept:
        turn = earlier[k]
        said = own.opening + turn.token_ids if thoughts else turn.token_ids[turn.thought_tokens :]
        places = [i for i in range(len(ids)) if ids[i : i + len(said)] == said]
        assert places, f"the tokens of turn {k} are not those that were sampled"
    assert text.count(PLAIN.eos_token) == 1 + 2 * len(kept), "every message is ended once"


def test_the_next_prompt_begins_with_this_one_and_what_was_written() -> None:
    own = chat(memory=MemorySettings(tokens=500))
    first = own.encode_prompt("one")
    said = (*PLAIN("<action>1</action>")["input_ids"], PLAIN.eos_token_id)
    second = own.encode_prompt("two", (), (EarlierTurn("one", said),))
    assert second[: len(first) + len(said)] == first + said
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "<action>1</action>"},
        {"role": "user", "content": "two"},
    ]
    rendered = PLAIN.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text_of(second) == rendered


def user_messages(ids: tuple[int, ...]) -> list[str]:
    parts = text_of(ids).split("<|im_start|>user\n")[1:]
    return [part.partition("<|im_end|>")[0] for part in parts]


def test_rules_that_stand_still_are_sent_once() -> None:
    """In the oldest turn that is shown, whichever that is; a turn of other rules keeps its own."""
    rules = "Take from heaps. The last one wins."
    texts = [f"{rules}\n\nHeap: {k}" for k in (9, 7, 4)]
    said = tuple(PLAIN("1")["input_ids"])
    earlier = tuple(EarlierTurn(text, said) for text in texts)
    now = f"{rules}\n\nHeap: 2\n\nYour last reply was not accepted."
    own = chat(memory=MemorySettings(tokens=500))
    ids = own.encode_prompt(now, (), earlier)
    due = [texts[0], "Heap: 7", "Heap: 4", now.removeprefix(f"{rules}\n\n")]
    assert user_messages(ids) == due
    assert ids[: len(own.encode_prompt(texts[0]))] == own.encode_prompt(texts[0])
    assert user_messages(own.encode_prompt(now)) == [now]
    fewer = own.encode_prompt(now, (), earlier, len(ids) - 1)
    assert user_messages(fewer) == [texts[1], *due[2:]]
    other = own.encode_prompt("Add up.\n\nHeap: 2", (), earlier)
    assert user_messages(other) == [*due[:3], "Add up.\n\nHeap: 2"]


def test_turns_without_the_rules_count_as_what_is_shown_of_them() -> None:
    rules = "Take one or more objects from one of the heaps. " * 8
    earlier = tuple(EarlierTurn(f"{rules}\n\nHeap: {k}", (50,)) for k in range(9))
    limit = len(PLAIN(rules)["input_ids"]) + 9 * 40
    own = chat(memory=MemorySettings(tokens=limit))
    ids = own.encode_prompt(f"{rules}\n\nHeap: 0", (), earlier)
    assert len(user_messages(ids)) == 9 + 1
    assert len(ids) <= limit + len(chat().encode_prompt("Heap: 0"))
    assert len(user_messages(own.encode_prompt("Heap: 0", (), earlier[:1] * 9))) == 9 + 1


def test_every_game_begins_with_rules_that_a_memory_can_leave_out() -> None:
    for env_id in srl_envs.list_envs():
        env, rng = srl_envs.make(env_id), np.random.default_rng(0)
        observations, _ = env.reset(seed=0)
        first = {agent: seen["text"].partition("\n\n") for agent, seen in observations.items()}
        acting = [a for a in env.possible_agents if observations[a]["can_act"]]
        seats = {agent: env.possible_agents.index(agent) for agent in acting}
        observations, *_ = env.step(
            {a: action(env.sample_legal(seat, rng)) for a, seat in seats.items()}
        )
        for agent, (rules, blank, rest) in first.items():
            assert blank
            assert rest
            assert observations[agent]["text"].startswith(rules + blank), env_id
        env.close()


def test_earlier_turns_give_way_to_the_reply() -> None:
    own = chat(memory=MemorySettings(tokens=500))
    earlier = turns_of([(0, 5, True)] * 4)
    whole = own.encode_prompt("now", (), earlier)
    assert own.encode_prompt("now", (), earlier, len(whole)) == whole
    fewer = own.encode_prompt("now", (), earlier, len(whole) - 1)
    assert fewer == own.encode_prompt("now", (), earlier[1:])
    assert own.encode_prompt("now", (), earlier, 1) == own.encode_prompt("now")


def test_a_template_that_hides_earlier_replies_is_refused() -> None:
    tokenizer = thinking_tokenizer()
    tokenizer.chat_template = "{{ messages[-1]['content'] }}"
    ChatTokenizer(tokenizer)
    with pytest.raises(ConfigError, match="earlier replies"):
        chat(tokenizer, memory=MemorySettings(tokens=9))
