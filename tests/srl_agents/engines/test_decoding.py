"""The decoding loop: none of its optimizations changes a token, and every row is finished."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    PretrainedConfig,
)

from srl_agents.caching.objectives import Objectives
from srl_agents.caching.policies.online import ONLINE
from srl_agents.engines.embedded import row_attention
from srl_agents.engines.embedded.captured_passes import Capture, Run
from srl_agents.engines.embedded.decoding import Decoder
from srl_agents.engines.embedded.decoding_settings import DecodingRules
from srl_agents.engines.embedded.places.kv_packing import EightBits
from srl_agents.engines.embedded.places.kv_tiers import BLOCK, KVTiers, TierLimits
from srl_agents.engines.embedded.prefix_tree import Node
from srl_agents.engines.embedded.row import Row
from srl_agents.engines.embedded.row_attention import PassAttention, Stretch, Tails
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.playing_model import LayerInputs
from srl_agents.models.sources import random_model
from srl_envs.errors import MemoryLimitError, ModelError
from tests.srl_agents.engines.captured import captured

GREEDY = SamplingSettings(temperature=0.0, max_new_tokens=7)
OFF = DecodingRules(max_rows=1, refill=False, share_prefixes=False, read_in_place=10**9)
"""One row at a time, and nothing is shared."""
ONE = DecodingRules(max_rows=1)


def _longer(most: int, reply: Sequence[int]) -> bool:
    return len(reply) > most


def rows(versions: tuple[str | None, ...], count: int, seed: int = 0) -> list[Row]:
    """Prompts of a few families, such as games have them; every third reply ends early."""
    rng = np.random.default_rng(seed)
    rules = [tuple(int(i) for i in rng.integers(3, 300, size=n)) for n in (40, 25)]
    return [
        Row(
            prompt=rules[k % 2][: int(rng.integers(1, 41))]
            + tuple(int(i) for i in rng.integers(3, 300, size=int(rng.integers(1, 6)))),
            version=versions[k % len(versions)],
            sampling=GREEDY,
            uniforms=np.zeros(GREEDY.max_new_tokens, dtype=np.float32),
            ended=partial(_longer, k % 3 * 3),
        )
        for k in range(count)
    ]


def played(
    base: BaseModel,
    asked: list[Row],
    how: DecodingRules,
    tiers: KVTiers | None = None,
    capture: Capture | None = None,
    **limits: Any,
) -> list[list[int]]:
    memory = {"live_tokens": 10**6, "cache_bytes": 10**6, **limits}
    decoder = Decoder(base.playing(), how, tiers=tiers, capture=capture, **memory)
    decoder.waiting.extend(asked)
    finished: list[Row] = []
    with torch.no_grad():
        while decoder.busy:
            finished += decoder.step()
            assert len(decoder.rows) + len(decoder.reading) <= how.max_rows
            _, slots, _, places, _ = decoder._tails.kv[0].shape
            used = slots * places + decoder._tree.held_places
            assert used <= memory["live_tokens"] or len(decoder.rows) + len(decoder.reading) <= 1
    assert sorted(map(id, finished)) == sorted(map(id, asked))
    return [row.reply for row in asked]


@pytest.fixture(scope="module")
def players(tmp_path_factory: pytest.TempPathFactory) -> BaseModel:
    base = BaseModel.load(random_model.build(tmp_path_factory.mktemp("model")), device="cpu")
    for seed, name in enumerate(("alice", "bob")):
        base.add_adapter(name, seed)
        generator = torch.Generator().manual_seed(seed)
        tensors = base.adapter_tensors(name)
        base.freeze(
            f"{name}@0",
            {k: 0.1 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()},
        )
    return base


VERSIONS = (None, "alice@0", "bob@0")


@pytest.mark.slow
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    how=st.builds(
        DecodingRules,
        max_rows=st.integers(1, 9),
        refill=st.booleans(),
        share_prefixes=st.booleans(),
        read_in_place=st.sampled_from([1, 20, 10**9]),
        step_tokens=st.sampled_from([9, 50, 4096]),
        eviction=st.sampled_from(list(ONLINE)),
        objectives=st.sampled_from(
            [
                Objectives(),
                Objectives(first_token_s=0.01, between_tokens_s=1e-6),
                Objectives(first_token_s=60),
            ]
        ),
    ),
    live_tokens=st.sampled_from([1, 150, 10**6]),
    cache_bytes=st.sampled_from([0, 20000, 10**6]),
    host_blocks=st.sampled_from([0, 2, 50]),
    activated=st.booleans(),
    capture=st.sampled_from([None, captured]),
    seed=st.integers(0, 3),
)
def test_greedy_tokens_are_the_same_whatever_the_loop_does(
    players: BaseModel,
    how: DecodingRules,
    live_tokens: int,
    cache_bytes: int,
    host_blocks: int,
    activated: bool,
    capture: Capture | None,
    seed: int,
) -> None:
    plain, asked = rows(VERSIONS, 11, seed), rows(VERSIONS, 11, seed)
    for row in (*plain, *asked) if activated else ():
        row.base_tokens = len(row.prompt) - 2
    per_token = players.playing().bytes_per_token
    tiers = KVTiers(TierLimits(host_bytes=host_blocks * BLOCK * per_token), per_token)
    limits = {"live_tokens": live_tokens, "cache_bytes": cache_bytes}
    assert played(players, asked, how, tiers, capture, **limits) == played(players, plain, OFF)
    for row, other in zip(asked, plain, strict=True):
        assert row.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("host_blocks", "disk_blocks"), [(50, 0), (0, 50), (1, 50)])
def test_greedy_tokens_are_the_same_where_prompts_come_back_from_slower_places(
    players: BaseModel, tmp_path: Path, host_blocks: int, disk_blocks: int
) -> None:
    """Nothing stays on the device, and each prompt is read twice."""
    expected = played(players, rows(VERSIONS, 9), OFF)
    file_bytes = BLOCK * players.playing().bytes_per_token
    limits = TierLimits(
        host_bytes=host_blocks * file_bytes,
        disk_bytes=disk_blocks * (file_bytes + 32),
        folder=tmp_path,
    )
    tiers = KVTiers(limits, players.playing().bytes_per_token)
    assert played(players, rows(VERSIONS, 9), ONE, tiers, cache_bytes=0) == expected
    again = rows(VERSIONS, 9)
    tiers.take_fetched()
    assert played(players, again, ONE, tiers, cache_bytes=0) == expected
    long_ones = sum(len(row.prompt) > BLOCK for row in again)
    assert sum(tiers.take_fetched()) == BLOCK * long_ones > 0
    assert sum(row.cached for row in again) == BLOCK * long_ones
    tiers.close()


@pytest.mark.parametrize("window", [None, 5])
def test_a_long_prompt_is_attended_in_parts(
    monkeypatch: pytest.MonkeyPatch, window: int | None
) -> None:
    """Masks grow only with the length, and what is computed stays the same."""
    whole: list[torch.Tensor] = []
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(n, 23, 8, generator=generator) for n in (4, 2, 2))
    inputs = LayerInputs(0, query, key, value, 0.3, window)
    for most in (512, 4):
        monkeypatch.setattr(row_attention, "_QUERIES", most)
        node = Node(tuple(range(23)), None, 0, torch.zeros(1, 2, 2, 23, 8))
        stretch = Stretch(node, 0, [], 0, 23)
        attention = PassAttention(
            tails=Tails.__new__(Tails), stretches=[stretch], slots_n=torch.tensor([]),
            all_slots=True, places_n=torch.tensor([]), lengths=[],
        )  # fmt: skip
        whole.append(attention._of_stretch(0, stretch, inputs))
        assert max(mask.numel() for mask in attention._masks.values()) <= 2 * min(most, 23) * 23
    torch.testing.assert_close(*whole)


def test_a_reply_that_needs_more_memory_than_there_is_is_refused(players: BaseModel) -> None:
    decoder = Decoder(players.playing(), DecodingRules(), live_tokens=40, cache_bytes=0)
    fits, wide = rows((None,), 2)
    fits.prompt, wide.prompt = (5,), tuple(range(3, 40))
    decoder.require_room(fits)
    with pytest.raises(MemoryLimitError, match=r"37 tokens .* Raise engine\.live_gib"):
        decoder.require_room(wide)


def test_a_long_prompt_is_read_in_pieces_while_the_others_are_written(players: BaseModel) -> None:
    """A step reads a bounded part of prompts, no row waits for it, and log-probabilities are the same."""
    short, (long,) = rows(VERSIONS, 4), rows(("alice@0",), 1, seed=9)
    short[2].prompt, long.prompt = tuple(range(3, 130)), tuple(range(3, 200))
    for row in short:
        row.ended = lambda reply: False
    whole = [*rows(VERSIONS, 4), *rows(("alice@0",), 1, seed=9)]
    for row, other in zip(whole, [*short, long], strict=True):
        row.prompt, row.ended = other.prompt, other.ended
    played(players, whole, OFF)
    how = DecodingRules(step_tokens=30)
    decoder = Decoder(players.playing(), how, live_tokens=10**6, cache_bytes=10**6)
    decoder.waiting.extend([*short[:2], long, *short[2:]])
    steps, apart = 0, 0
    with torch.no_grad():
        while decoder.busy:
            before = [(row, len(row.reply)) for row in decoder.rows]
            assert sum(piece.size for piece in decoder._pieces(30)) <= 30
            decoder.step()
            assert all(len(row.reply) == written + 1 for row, written in before)
            steps, apart = steps + 1, apart + bool(before and decoder.reading)
    assert apart >= 3
    for row, other in zip([*short, long], whole, strict=True):
        assert row.reply == other.reply
        assert row.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_the_next_request_reads_on_a_prompt_that_was_abandoned(
    players: BaseModel,
) -> None:
    one, other, again = (rows((None,), 1, seed=9)[0] for _ in range(3))
    for row in (one, other, again):
        row.prompt = tuple(range(3, 150))
    played(players, [one], OFF)
    how = DecodingRules(step_tokens=40)
    decoder = Decoder(players.playing(), how, live_tokens=10**6, cache_bytes=0)
    decoder.add(other)
    with torch.no_grad():
        decoder.step()
        decoder.drop([other])
        assert not decoder.busy
        decoder.add(again)
        while decoder.busy:
            decoder.step()
    assert again.cached == 0 or again.cached == 40
    assert again.reply == one.reply


@pytest.mark.parametrize("read_in_place", [1, 10**9])
def test_what_comes_back_in_8_bits_writes_nearly_the_same_and_takes_less(
    players: BaseModel, tmp_path: Path, read_in_place: int
) -> None:
    """Prompts are read again from the device and from host memory, and one goes on behind another."""
    exact = rows(VERSIONS, 9)
    played(players, exact, OFF)
    near, model = 0, players.playing()
    packed = EightBits.of(model)
    for cache_bytes in (10**6, 0):
        tiers = KVTiers(TierLimits(host_bytes=10**6, folder=tmp_path), packed.bytes_per_token)
        how = DecodingRules(max_rows=3, read_in_place=read_in_place, eight_bits=True)
        decoder = Decoder(model, how, tiers=tiers, live_tokens=10**6, cache_bytes=cache_bytes)
        for repeat in range(3):
            asked = rows(VERSIONS, 9)
            decoder.waiting.extend(asked)
            with torch.no_grad():
                while decoder.busy:
                    decoder.step()
            for row, other in zip(asked, exact, strict=True):
                assert row.cached or not repeat or len(row.prompt) <= BLOCK
                assert row.logprobs[0] == pytest.approx(other.logprobs[0], abs=0.05)
                near += row.reply == other.reply
        assert not decoder._tree.held_bytes
        assert (decoder._tree.bytes > 0) == (cache_bytes > 0)
        assert decoder._tree.bytes % packed.bytes_per_token == 0
        assert packed.bytes_per_token < 0.6 * model.bytes_per_token
    assert near >= 48  # of 54 replies


def test_a_time_between_tokens_that_cannot_be_held_has_rows_begin_alone_and_be_read_in_pieces(
    players: BaseModel,
) -> None:
    how = DecodingRules(max_rows=4, objectives=Objectives(between_tokens_s=1e-6))
    decoder = Decoder(players.playing(), how, live_tokens=10**6, cache_bytes=0)
    decoder.waiting.extend(rows((None,), 24))
    live = []
    with torch.no_grad():
        while decoder.busy:
            decoder.step()
            live.append(len(decoder.rows) + len(decoder.reading))
    assert max(live[:4]) > 1  # nothing is known yet
    assert max(live[20:]) <= 1


def test_a_place_is_taken_at_once(players: BaseModel) -> None:
    counts = {}
    for refill in (True, False):
        decoder = Decoder(
            players.playing(),
            DecodingRules(max_rows=3, refill=refill),
            live_tokens=10**6,
            cache_bytes=0,
        )
        decoder.waiting.extend(rows((None,), 9))
        counts[refill] = 0
        with torch.no_grad():
            while decoder.busy:
                decoder.step()
                counts[refill] += 1
    # replies of 1, 4 and 7 tokens, three of each
    assert counts == {True: 14, False: 21}


def test_dropped_rows_leave_the_others_as_they_are(players: BaseModel) -> None:
    expected = played(players, rows(VERSIONS, 9), OFF)
    asked = rows(VERSIONS, 9)
    decoder = Decoder(
        players.playing(), DecodingRules(max_rows=4), live_tokens=10**6, cache_bytes=10**6
    )
    decoder.waiting.extend(asked)
    with torch.no_grad():
        decoder.step()
        decoder.step()
        gone = {decoder.rows[1], decoder.rows[-1], decoder.waiting[0]}
        decoder.drop(gone)
        while decoder.busy:
            decoder.step()
    for row, reply in zip(asked, expected, strict=True):
        assert row in gone or row.reply == reply
    assert not any(row.finish for row in gone)


SHAPE: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


@pytest.mark.parametrize(
    "config",
    [
        MistralConfig(**SHAPE, sliding_window=9),
        LlamaConfig(**SHAPE, head_dim=16),
        MixtralConfig(**SHAPE, num_local_experts=3),
    ],
    ids=lambda config: config.model_type,
)
def test_every_architecture_is_played_as_by_its_own_forward(config: PretrainedConfig) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).eval()
    base = BaseModel(
        "small", model, ChatTokenizer(random_model.random_tokenizer()), lora_rank=2, lora_alpha=4
    )
    together = DecodingRules(max_rows=4, read_in_place=1)
    # experts read numbers back, which a device refuses to capture
    capture = None if config.model_type == "mixtral" else captured
    for how, how_captured in ((OFF, None), (together, None), (together, capture)):
        asked = rows((None,), 7)
        for reply, row in zip(played(base, asked, how, capture=how_captured), asked, strict=True):
            with torch.no_grad():
                logits = base.model(torch.tensor([(*row.prompt, *reply)])).logits[0]
            written = logits[len(row.prompt) - 1 : -1].log_softmax(-1)
            assert reply == written.argmax(-1).tolist()
            assert row.logprobs == pytest.approx(written.max(-1).values.tolist(), abs=1e-4)


def test_a_pass_is_captured_once_for_many_tokens_and_again_for_other_weights(
    players: BaseModel, caplog: pytest.LogCaptureFixture
) -> None:
    plain = [played(players, rows((name,), 4), ONE) for name in VERSIONS]
    captures = 0

    def counted(run: Run) -> Run:
        nonlocal captures
        captures += 1
        return captured(run)

    decoder = Decoder(
        players.playing(), DecodingRules(), capture=counted, live_tokens=10**6, cache_bytes=10**6
    )
    for number, name in enumerate(VERSIONS):
        asked, steps = rows((name,), 4), 0
        decoder.waiting.extend(asked)
        with torch.no_grad():
            while decoder.busy:
                decoder.step()
                steps += 1
        assert [row.reply for row in asked] == plain[number]
        assert (steps, captures) == (7, number + 1)  # many tokens, one graph
        assert not any(kv.numel() for kv in decoder._tails.kv)

    def refused(run: Run) -> Run:
        raise RuntimeError("operation not permitted when stream is capturing")

    assert played(players, rows((VERSIONS[1],), 4), ONE, capture=refused) == plain[1]
    assert caplog.text.count("cannot be captured") == 1  # though each of four rows begins a batch


def test_attention_that_the_engine_does_not_have_is_refused() -> None:
    model = AutoModelForCausalLM.from_config(Gemma2Config(**SHAPE, head_dim=8))
    base = BaseModel(
        "gemma", model, ChatTokenizer(random_model.random_tokenizer()), lora_rank=2, lora_alpha=4
    )
    with pytest.raises(ModelError, match="softcap"):
        played(base, rows((None,), 1), OFF)


def test_a_long_prompt_is_overtaken_a_few_times_only(players: BaseModel) -> None:
    short = rows((None,), 24)
    (long,) = rows((None,), 1, seed=9)
    long.prompt = tuple(range(3, 200))
    decoder = Decoder(players.playing(), DecodingRules(max_rows=2), live_tokens=120, cache_bytes=0)
    decoder.waiting.extend([short[0], long, *short[1:]])
    finished: list[Row] = []
    with torch.no_grad():
        while decoder.busy:
            finished += decoder.step()
    assert finished.index(long) <= 4
    assert len(finished) == 25
