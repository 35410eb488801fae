"""Thoughts have a budget of their own, do not enter the reply, and have exact tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.row import Row
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.engines.thinking import Piece, Thinking, written_in_pieces
from srl_agents.engines.vllm.engine import VLLMEngine
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.prompt import EarlierTurn, MemorySettings, Prompt, ThoughtSettings
from tests import thinking_model
from tests.vllm_stub import vllm_stub

BUDGET, REPLY = 24, 10
PROMPT = Prompt(thoughts=ThoughtSettings(budget=BUDGET), memory=MemorySettings(tokens=120))
CHAT = ChatTokenizer(thinking_model.thinking_tokenizer(), PROMPT)
THINKING = Thinking(CHAT)
SAMPLING = SamplingSettings(max_new_tokens=REPLY)
END = CHAT.tokenizer.eos_token_id


def tokens_of(text: str) -> list[int]:
    return list(CHAT.tokenizer(text, add_special_tokens=False)["input_ids"])


CLOSE = tokens_of("</think>")[0]


def row() -> Row:
    return Row(
        prompt=(1,),
        version=None,
        sampling=SAMPLING,
        uniforms=np.zeros(CHAT.reply_tokens(REPLY), dtype=np.float32),
        ended=lambda reply: reply[-1] == END,
        message_ends=(END,),
        thinking=THINKING,
    )


async def pieces(drawn: list[int]) -> Generation:
    """The same draws, given by an engine that samples up to a text or a limit."""
    left = list(drawn)

    async def sample(_: tuple[int, ...], most: int, stops: tuple[str, ...], number: int) -> Piece:
        said: list[int] = []
        while len(said) < most:
            said.append(left.pop(0))
            if said[-1] == END or (number and stops == ("</think>",) and said[-1] == CLOSE):
                return Piece(token_ids=tuple(said), logprobs=(-1.0,) * len(said), finish="stop")
        return Piece(token_ids=tuple(said), logprobs=(-1.0,) * len(said), finish="length")

    request = GenerationRequest(observation="", version=None, key=(1,))
    return await written_in_pieces(
        CHAT, THINKING, (1,), request, sampling=SAMPLING, sample=sample
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([40, 41, 42, 43, 44, 45, CLOSE, END]), min_size=60, max_size=60))
def test_both_ways_of_writing_keep_to_both_limits_and_agree(drawn: list[int]) -> None:
    own = row()
    left = iter(drawn)
    while not own.finish:
        forced = bool(own.still_forced)
        own.take(99 if forced else next(left), -1.0)
    thoughts, reply = own.reply[: own.thought_tokens], own.reply[own.thought_tokens :]
    assert len(thoughts) - own.forced_tokens <= BUDGET
    assert len(reply) <= REPLY
    if own.forced_tokens:
        assert len(thoughts) == BUDGET + len(CHAT.thoughts_end)
        assert tuple(thoughts[BUDGET:]) == CHAT.thoughts_end
        assert own.logprobs[BUDGET : len(thoughts)] == [0.0] * own.forced_tokens
    elif reply:
        assert thoughts[-1] == CLOSE
    else:
        assert (thoughts[-1], own.finish) == (END, "stop")
    assert CLOSE not in thoughts[: -1 - own.forced_tokens]

    other = asyncio.run(pieces(drawn))
    assert other.token_ids == tuple(own.reply)
    assert other.logprobs == tuple(own.logprobs)
    assert (other.thought_tokens, other.forced_tokens) == (own.thought_tokens, own.forced_tokens)
    assert other.finish == own.finish


@pytest.mark.parametrize(
    ("written", "thoughts", "reply"),
    [
        ("I see.\n</think>\n\n<action>1</action>", "I see.", "\n\n<action>1</action>"),
        ("<action>9</action>?</think>no", "<action>9</action>?", "no"),
        ("</think>x</think>y", "", "x</think>y"),
    ],
)
def test_texts_are_parted_at_the_first_marker(written: str, thoughts: str, reply: str) -> None:
    ids = tokens_of(written)
    assert THINKING.texts(ids, ids.index(CLOSE) + 1) == (thoughts, reply)


def test_what_a_token_holds_behind_the_marker_is_the_replys() -> None:
    tokenizer = thinking_model.thinking_tokenizer()
    tokenizer.add_tokens(["nk>!"])
    thinking = Thinking(
        ChatTokenizer(tokenizer, Prompt(thoughts=ThoughtSettings(budget=5, close="thank>")))
    )
    ids = tokenizer("so thank>!yes", add_special_tokens=False)["input_ids"]
    place = next(k for k in range(1, len(ids) + 1) if thinking.closed(ids[:k]))
    assert thinking.texts(ids, place) == ("so", "!yes")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> BaseModel:
    folder = thinking_model.build(tmp_path_factory.mktemp("thinking") / "model")
    return BaseModel.load(folder, lora_rank=2, device="cpu", prompt=PROMPT)


@pytest.fixture
def engine(base: BaseModel) -> Iterator[TransformersEngine]:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=REPLY, temperature=1.0))
    yield engine
    asyncio.run(engine.close())


def asks(count: int, earlier: tuple[EarlierTurn, ...] = ()) -> list[GenerationRequest]:
    return [
        GenerationRequest(observation=f"Board {n % 3}", version=None, key=(5, n), earlier=earlier)
        for n in range(count)
    ]


async def beside(engine: TransformersEngine, asked: list[GenerationRequest]) -> list[Generation]:
    return list(await asyncio.gather(*(engine.generate(request) for request in asked)))


def test_the_embedded_engine_separates_thoughts_with_exact_log_probabilities(
    base: BaseModel, engine: TransformersEngine
) -> None:
    earlier = (EarlierTurn("Board 7", (50, 51, CLOSE, 52, 53, END), 3),)
    asked = asks(40, earlier)
    together = asyncio.run(engine.generate_together(asked))
    separate = asyncio.run(beside(engine, asked))
    assert [g.token_ids for g in together] == [g.token_ids for g in separate]
    ends = {(bool(g.forced_tokens), g.token_ids[-1] == END) for g in together}
    assert {forced for forced, _ in ends} == {True, False}, "the sample has only one way to end"
    for request, got in zip(asked, together, strict=True):
        assert got.prompt_ids == base.encode_prompt(request.observation, (), earlier)
        own = got.thought_tokens - got.forced_tokens
        assert 1 <= own <= BUDGET
        assert len(got.token_ids) - got.thought_tokens <= REPLY
        assert "</think>" not in got.thoughts
        ids = torch.tensor([[*got.prompt_ids, *got.token_ids]])
        with torch.no_grad():
            logprobs = base.model(ids).logits[0].double().log_softmax(-1)
        first = len(got.prompt_ids)
        plain = [float(logprobs[first + k - 1, t]) for k, t in enumerate(got.token_ids)]
        drawn = [k for k in range(len(plain)) if not own <= k < got.thought_tokens]
        assert np.abs(np.array(plain) - got.logprobs)[drawn].max() < 1e-4
        assert set(got.logprobs[own : got.thought_tokens]) <= {0.0}


def test_a_reply_is_stopped_by_its_stop_text_and_thoughts_are_not(base: BaseModel) -> None:
    """A text that is in every token would stop the thoughts at once."""
    sampling = SamplingSettings(max_new_tokens=REPLY, stop=("e", "a", "o", "i", " ", "r", "s"))
    engine = TransformersEngine(base, sampling)
    got = asyncio.run(engine.generate_together(asks(20)))
    asyncio.run(engine.close())
    assert max(g.thought_tokens - g.forced_tokens for g in got) == BUDGET
    assert any(set(g.thoughts) & set("eaoi rs") for g in got)
    assert min(len(g.token_ids) - g.thought_tokens for g in got if g.finish == "stop") < REPLY


def test_a_vllm_server_is_asked_for_thoughts_then_for_the_reply() -> None:
    with vllm_stub() as stub:
        engine = VLLMEngine(HTTPLink(stub.url), CHAT, SAMPLING, context_length=512)

        async def one() -> Generation:
            try:
                return await engine.generate(asks(1)[0])
            finally:
                await engine.close()

        stub.closes = CLOSE
        got = asyncio.run(one())
    first, second = stub.asked
    assert first["sampling_params"]["stop"] == ["</think>"]
    assert first["sampling_params"]["max_tokens"] == BUDGET
    assert second["token_ids"] == first["token_ids"] + list(got.token_ids[: got.thought_tokens])
    assert second["sampling_params"]["stop"] == list(SAMPLING.stop)
    assert first["sampling_params"]["seed"] != second["sampling_params"]["seed"]
    assert got.token_ids[got.thought_tokens - 1] == CLOSE
    assert got.text
    assert got.text not in got.thoughts


def test_no_room_counts_both_limits(base: BaseModel) -> None:
    fits = (
        base.context_length - BUDGET - len(CHAT.thoughts_end) - len(base.encode_prompt("Board 0"))
    )
    engine = TransformersEngine(base, replace(SAMPLING, max_new_tokens=fits + 1))
    got = asyncio.run(engine.generate_together(asks(1)))[0]
    asyncio.run(engine.close())
    assert (got.text, got.token_ids, got.finish) == ("", (), "length")
