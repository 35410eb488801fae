"""The simulator beside a real vLLM server: prefix-cache hits of group rollouts, replayed and counted.

    python -m benchmarks.caching.vllm_hits [--game public_goods-v0] [--blocks 32] [--json FILE]

A vLLM server (SRL_VLLM_PYTHON) with so many blocks of keys and values answers a game's group rollouts, whose
requests are recorded. The trace is replayed through LRU with the same number of blocks, and tokens that hit
are compared with the server's own counters, ``vllm:prefix_cache_queries`` and ``vllm:prefix_cache_hits``.
With ``--servers 2`` a conductor places the requests on two, and hits are compared with a cache without limit,
and with the least that two caches have to lose: what all prompts begin with is computed by each of them.
Blocks stored and removed are those of vLLM's own events. ``--no-prefix-cache`` turns the cache off: prompt
tokens computed stand beside the least that whole blocks allow.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.caching.group_rollouts import groups
from srl_agents.agents.players import ModelPolicy
from srl_agents.caching.blocks import block_hashes
from srl_agents.caching.simulation.replay import make_policy, replay
from srl_agents.caching.simulation.traces import Trace, read_trace
from srl_agents.engines.conducted import ConductedEngine
from srl_agents.engines.protocol import Engine, SamplingSettings
from srl_agents.engines.vllm.cache import VLLMCache
from srl_agents.engines.vllm.engine import VLLMEngine
from srl_agents.engines.vllm.events.prefix_cache import KVCounts
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_agents.interrupts import EventLoop
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.sources import catalog
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.request_trace import RequestTrace

CONTEXT = 640
_SETTLED_S = 1.0
BLOCK = 32
"""Tokens; vLLM on a CPU takes multiples of 32."""


def counters(url: str) -> dict[str, float]:
    """Tokens looked up in the prefix cache and found there, by the server's own count."""
    text = httpx2.get(f"{url}/metrics").text
    found = {}
    for name in ("queries", "hits"):
        pattern = rf"^vllm:prefix_cache_{name}(?:_total)?{{[^}}]*}} (\S+)$"
        found[name] = sum(float(value) for value in re.findall(pattern, text, re.MULTILINE))
    return found


def kv_counts(server: VLLMServer) -> KVCounts:
    """Counts of the server's events, once they no longer change."""
    if server.events is None:
        raise RuntimeError("the server publishes no events")
    counts = None
    while counts != server.events.counts:
        counts = server.events.counts
        time.sleep(_SETTLED_S)
    return server.events.counts


def copied_blocks(trace: Trace) -> int:
    """Blocks that all prompts begin with."""
    chains = [request.blocks for request in trace.requests]
    return next(
        (n for n, same in enumerate(zip(*chains, strict=False)) if len(set(same)) > 1),
        min(map(len, chains)),
    )


def simulated_hits(trace: Trace, blocks: int) -> int:
    """Tokens that LRU with so many blocks has; only whole blocks, and never a prompt's last token."""
    hits_R = replay(trace, make_policy("lru", blocks, trace)).hits_R
    size = trace.tokens_per_block
    return sum(
        min(int(hits), (request.prompt_tokens - 1) // size) * size
        for hits, request in zip(hits_R, trace.requests, strict=True)
    )


@contextmanager
def serving(
    model: str, blocks: int, servers: int, folder: Path, cache: VLLMCache
) -> Iterator[list[VLLMServer]]:
    """Servers of one model while the block runs."""
    settings = VLLMServerSettings(
        model=str(catalog.resolve(model)),
        lora_rank=0,
        max_running=2,
        max_length=CONTEXT,
        dtype="float32",
        block_tokens=BLOCK,
        cache_gib=1,
        compiled=False,
        kv_events=True,
        cache=cache,
        arguments=("--num-gpu-blocks-override", str(blocks)),
    )
    with ExitStack() as opened:
        started = []
        for number in range(servers):
            server = VLLMServer(settings, folder / f"server{number}.log")
            opened.callback(server.close)
            server.start()
            started.append(server)
        yield started


def play(servers: Sequence[VLLMServer], model: str, specs: Sequence[MatchSpec], path: Path) -> None:
    """Play the matches, all at once, and record their requests."""
    chat = ChatTokenizer.load(catalog.resolve(model))
    with EventLoop() as runner:
        engines: list[Engine] = [
            VLLMEngine(
                HTTPLink(server), chat, SamplingSettings(max_new_tokens=4), context_length=CONTEXT
            )
            for server in servers
        ]
        engine = engines[0]
        if len(engines) > 1:
            engine = ConductedEngine(
                engines,
                lambda request: block_hashes(
                    chat.encode_prompt(request.observation, request.examples, request.earlier),
                    BLOCK,
                ),
                places=2,
            )
        policies, trace = {"model": ModelPolicy(engine)}, RequestTrace(path, BLOCK)
        with Rollouts(
            policies, root_seed=0, order="free", concurrency=len(specs), loop=runner, trace=trace
        ) as rollouts:
            rollouts.play(specs)
        runner.run(engine.close())


def measured(
    model: str,
    game: str,
    *,
    blocks: int,
    states: int,
    attempts: int,
    folder: Path,
    servers: int = 1,
    cache: VLLMCache | None = None,
) -> dict[str, Any]:
    """Play on servers, and replay."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "requests.jsonl"
    path.unlink(missing_ok=True)  # a trace goes on where it ended
    with serving(model, blocks, servers, folder, cache or VLLMCache()) as started:
        before = [counters(server.url) for server in started]
        began_s = time.perf_counter()
        play(started, model, groups(game, states, attempts), path)
        seconds = time.perf_counter() - began_s
        after = [counters(server.url) for server in started]
        events = [kv_counts(server) for server in started]
    recorded = read_trace(path, BLOCK)
    counted = {
        name: sum(late[name] - early[name] for late, early in zip(after, before, strict=True))
        for name in ("queries", "hits")
    }
    possible = simulated_hits(recorded, recorded.blocks)
    prompts = sum(request.prompt_tokens for request in recorded.requests)
    found: dict[str, Any] = {
        "game": game,
        "servers": servers,
        "blocks": blocks,
        "requests": len(recorded.requests),
        **counted,
        "blocks_stored": [each.stored for each in events],
        "blocks_removed": [each.removed for each in events],
        "batches_missed": sum(each.missed for each in events),
        "possible_hits": possible,
        "prompt_tokens": prompts,
        "computed": prompts - counted["hits"],
        "least_by_blocks": prompts - possible,
        "computed_to_least": (prompts - counted["hits"]) / (prompts - possible),
        "seconds": seconds,
        "share_of_possible": counted["hits"] / possible,
        "queries_by_server": [
            late["queries"] - early["queries"] for late, early in zip(after, before, strict=True)
        ],
    }
    if servers > 1:
        copied = (servers - 1) * copied_blocks(recorded) * BLOCK
        found |= {
            "read_by_every_server": copied,
            "share_of_what_several_can": counted["hits"] / (possible - copied),
        }
    if servers == 1 and counted["hits"]:
        simulated = simulated_hits(recorded, blocks)
        found |= {"simulated_hits": simulated, "ratio": simulated / counted["hits"]}
    return found


def main() -> None:
    """Print and save the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--game", default="public_goods-v0")
    parser.add_argument("--blocks", type=int, default=32)
    parser.add_argument("--states", type=int, default=1)
    parser.add_argument("--attempts", type=int, default=3)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--cache-type", default="auto", help="of keys and values: auto, fp8, ...")
    parser.add_argument("--no-prefix-cache", action="store_true", help="to compare with")
    parser.add_argument("--log", type=Path, help="folder for the server's log and the trace")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(
            options.model,
            options.game,
            blocks=options.blocks,
            states=options.states,
            attempts=options.attempts,
            folder=options.log or Path(folder),
            servers=options.servers,
            cache=VLLMCache(
                cache_type=options.cache_type, prefix_cache=not options.no_prefix_cache
            ),
        )
    found["command"] = (
        f"python -m benchmarks.caching.vllm_hits --game {options.game} --blocks {options.blocks} "
        f"--states {options.states} --attempts {options.attempts} --servers {options.servers} "
        f"--cache-type {options.cache_type}{' --no-prefix-cache' * options.no_prefix_cache}"
    )
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
