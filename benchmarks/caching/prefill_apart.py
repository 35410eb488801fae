"""One process reads prompts, another replies: what crosses between them, beside the plan of `srl plan kv`.

    python -m benchmarks.caching.prefill_apart [--model smollm2-135m] [--json FILE]

Groups of prompts that begin alike are read by a process of their own, which serves the blocks over TCP; the
engine here keeps nothing and replies. Beside it the same engine takes the blocks from memory that both
share (/dev/shm), and reads all prompts itself. Tokens are compared one by one. The planner replays the same
requests on one node that reads and one that writes, on a link of the rate that was measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from srl_agents.caching.simulation.hardware import model_shape
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.places.kv_network import BlockServer
from srl_agents.engines.embedded.places.kv_tiers import BLOCK, TierLimits, block_names
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel

GROUPS, MEMBERS = 4, 3
RULES = "You are playing a game of words. Say what you see, then reply with one move. "
OWN = "It is raining, the other player waits, and the clock stands at noon. "
SAMPLING = SamplingSettings(max_new_tokens=8)
DISK = 8 * 2**30


def requests() -> list[GenerationRequest]:
    """Some 300 tokens that a group shares, and some 100 of each member's own."""
    return [
        GenerationRequest(
            observation=f"Game {group}. {RULES * 14}\nTable {member}. {OWN * 6}",
            version=None,
            key=(group, member),
        )
        for group in range(GROUPS)
        for member in range(MEMBERS)
    ]


def engine(base: BaseModel, **places: Any) -> TransformersEngine:
    """One that keeps nothing on its device between requests."""
    tiers = TierLimits(disk_bytes=DISK, weigh=False, **places) if places else None
    return TransformersEngine(base, SAMPLING, cache_bytes=0, tiers=tiers)


async def _read(reader: TransformersEngine) -> None:
    for request in requests():
        await reader.prefill(request)
    await reader.close()


def read_and_serve(model: str, folder: str) -> None:
    """What the other process runs; it prints the address, and serves until its input ends."""
    secret = sys.stdin.readline().strip()
    reader = engine(BaseModel.load(model, dtype="float32"), shared=Path(folder))
    asyncio.run(_read(reader))
    server = BlockServer(Path(folder), secret)
    print(server.address, flush=True)
    sys.stdin.read()
    server.close()


def replied(player: TransformersEngine) -> tuple[list[Generation], float]:
    """Replies to all requests, one after the other, and their seconds."""

    async def play() -> list[Generation]:
        found = [await player.generate(request) for request in requests()]
        await player.close()
        return found

    began_s = time.perf_counter()
    return asyncio.run(play()), time.perf_counter() - began_s


def planned(base: BaseModel, prompts: Sequence[Sequence[int]], rate: float, folder: Path) -> Any:
    """The plan of `srl plan kv` for these requests."""
    numbers: dict[int, int] = {}
    lines = []
    for place, prompt in enumerate(prompts):
        names = block_names(prompt, None, "base", 0)
        blocks = [numbers.setdefault(name, len(numbers)) for name in names]
        if len(prompt) % BLOCK:
            blocks.append(10**6 + place)
        lines.append(
            {
                "timestamp": 60_000 * place, "input_length": len(prompt),
                "output_length": SAMPLING.max_new_tokens, "hash_ids": blocks,
            }
        )  # fmt: skip
    trace, config = folder / "trace.jsonl", folder / "config.json"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config.write_text(base.model.config.to_json_string())
    command = [
        sys.executable, "-m", "srl_agents.cli.main", "plan", "kv", "--trace", str(trace), "--nodes", "2",
        "--prefill-nodes", "1", "--link", f"{rate:.0f}B/s", "--model", str(config), "--json",
    ]  # fmt: skip
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(model: str) -> dict[str, Any]:
    """All three ways, and the plan."""
    base = BaseModel.load(model, dtype="float32")
    place = Path(
        tempfile.mkdtemp(
            prefix="srl-kv-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        )
    )
    secret = secrets.token_urlsafe()
    program = "import sys; from benchmarks.caching.prefill_apart import read_and_serve as r; r(*sys.argv[1:])"
    try:
        whole, whole_s = replied(engine(base))
        with subprocess.Popen(
            [sys.executable, "-c", program, model, str(place / "read")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as child:  # fmt: skip
            assert child.stdin is not None
            assert child.stdout is not None
            print(secret, file=child.stdin, flush=True)
            address = child.stdout.readline().strip()
            player = engine(base, shared=place / "sent", peers=(address,), secret=secret)
            sent, sent_s = replied(player)
            network = player.received
            memory, memory_s = replied(engine(base, shared=place / "read"))
            child.stdin.close()
        for found in (sent, memory):
            if [one.token_ids for one in found] != [one.token_ids for one in whole]:
                raise RuntimeError("replies differ")
        prompts = [one.prompt_ids for one in whole]
        rate = network.bytes / network.seconds
        plan = planned(base, prompts, rate, place)
        token_bytes = model_shape(str(place / "config.json")).kv_bytes_per_token
    finally:
        shutil.rmtree(place)
    return {
        "model": model,
        "requests": len(prompts),
        "prompt_tokens": sum(map(len, prompts)),
        "fetched_tokens": sum(one.cached_tokens for one in sent),
        "tokens_over_the_network": network.blocks * BLOCK,
        "bytes_over_the_network": network.bytes,
        "network_bytes_per_s": rate,
        "network_s": network.seconds,
        "seconds": {"reads all itself": whole_s, "over TCP": sent_s, "shared memory": memory_s},
        "tokens_read": sum(map(len, prompts))
        - sum(one.cached_tokens for one in sent)
        + network.blocks * BLOCK,
        "planned": {
            "tokens_read": plan["prompt_tokens_computed"],
            "tokens_handed_over": plan["bytes"]["link"]["handed_over"] / token_bytes,
            "bytes_per_token": token_bytes,
            "transfers": plan["bytes"]["link"]["transfers"],
        },
    }


def main() -> None:
    """Print and save."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    row = measure(options.model)
    print(json.dumps(row, indent=1))
    if options.json:
        found = {"command": "python -m benchmarks.caching.prefill_apart", "rows": [row]}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
