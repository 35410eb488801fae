"""Request traces of rollouts: one line per reply, as `srl plan kv` reads them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from srl_agents.agents.players import ModelPolicy
from srl_agents.caching.blocks import block_hashes
from srl_agents.caching.simulation.traces import read_trace, renumbered, unlimited_hits
from srl_agents.cli.main import main
from srl_agents.engines.protocol import Generation, GenerationRequest
from srl_agents.engines.scripted import ScriptedEngine, key_uniform
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Order, Rollouts
from srl_agents.rollouts.request_trace import RequestTrace
from srl_envs.errors import ConfigError

BLOCK = 16


class TellsTokens(ScriptedEngine):
    """One token per byte."""

    async def generate(self, request: GenerationRequest) -> Generation:
        reply = await super().generate(request)
        return replace(
            reply,
            prompt_ids=tuple(request.observation.encode()),
            token_ids=tuple(reply.text.encode()),
        )


def played(path: Path, order: Order, first: int = 0) -> list[Episode]:
    engine = TellsTokens(lambda r: f"<action>{1 + int(7 * key_uniform(r.key))}</action>")
    specs = [
        MatchSpec(env_id="connect_four-v0", seed=1, split="train", seats=("m", "m"), number=n)
        for n in range(first, first + 3)
    ]
    trace = RequestTrace(path, BLOCK)
    with Rollouts({"m": ModelPolicy(engine)}, root_seed=5, order=order, trace=trace) as rollouts:
        return rollouts.play(specs)


@pytest.mark.parametrize("order", ["exact", "free"])
def test_a_trace_has_one_line_per_reply_and_names_the_blocks_of_its_prompt(
    tmp_path: Path, order: Order
) -> None:
    path = tmp_path / "requests.jsonl"
    turns = [turn for e in played(path, order) for t in e.trajectories for turn in t.turns]
    trace = read_trace(path, BLOCK)
    assert sorted((r.prompt_tokens, r.reply_tokens, r.blocks) for r in trace.requests) == sorted(
        (
            len(turn.prompt_ids),
            len(turn.completion_ids),
            block_hashes(turn.prompt_ids, BLOCK, partial=True),
        )
        for turn in turns
    )


def test_every_seat_of_a_match_is_a_session_that_ends_once(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    played(path, "free")
    requests = read_trace(path, BLOCK).requests
    assert len({r.session for r in requests}) == 6
    last = {r.session: n for n, r in enumerate(requests)}
    assert [n for n, r in enumerate(requests) if r.ends] == sorted(last.values())


def test_a_later_process_appends_behind_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    played(path, "exact")
    before = read_trace(path, BLOCK).requests
    with path.open("a") as file:
        file.write('{"timestamp": 5, "inp')
    played(path, "exact", first=3)
    after = read_trace(path, BLOCK).requests
    assert after[: len(before)] == before
    assert len(after) > len(before)


def test_hashes_of_other_sizes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    played(path, "exact")
    with pytest.raises(ConfigError, match="block"):
        RequestTrace(path, 4 * BLOCK)


def test_renumbering_keeps_every_hit(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    played(path, "free")
    trace = read_trace(path, BLOCK)
    small = renumbered(trace)
    assert unlimited_hits(small.requests) == unlimited_hits(trace.requests) > 0
    assert max(max(r.blocks) for r in small.requests) < small.blocks
    assert [r.ends for r in small.requests] == [r.ends for r in trace.requests]


def test_a_cluster_is_planned_with_a_recorded_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "requests.jsonl"
    played(path, "free")
    trace = read_trace(path, BLOCK)
    capsys.readouterr()
    main(["plan", "kv", "--trace", str(path), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["hit_rate"] == pytest.approx(unlimited_hits(trace.requests) / trace.blocks)
