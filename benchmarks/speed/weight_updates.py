"""New versions on a real vLLM server under load: how long an update takes, and how long requests pause.

    SRL_VLLM_PYTHON=... python -m benchmarks.speed.weight_updates [--updates 10] [--url URL] [--json FILE]

Clients ask for replies without a break, and a probe asks for replies of one token, one after the other. An
install has parts that delay no request: this process opens and verifies the weights and writes them for the
server. What can hold requests up is the one call with which the server loads the adapter, between two
steps of its batch. The pause of an update is how much longer the slowest probe took that was in flight during
that call than the median probe that met none; compare it with the spread of those.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from benchmarks.learning.child_process import commit
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.engines.vllm.engine import VLLMEngine
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_agents.engines.vllm.settings import served_adapters
from srl_agents.models.base_model import BaseModel
from srl_agents.models.digests import version_of
from srl_agents.models.sources import catalog
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.transports.files import FilesTransport

MODEL, CONTEXT, REPLY = "smollm2-135m", 1024, 24
ONE_TOKEN = SamplingSettings(max_new_tokens=1)
RESULTS = Path("benchmarks/results/weight_updates.json")
Span = tuple[float, float]


@dataclass
class Load:
    """What the clients do, and what came of it."""

    engine: VLLMEngine
    newest: WeightVersion
    over: bool = False
    replies: list[tuple[WeightVersion, Generation]] = field(default_factory=list)
    probes: list[Span] = field(default_factory=list)
    asked: int = 0

    async def client(self, number: int) -> None:
        """Send one request after the other until the measurement ends."""
        count = 0
        while not self.over:
            version, count = self.newest, count + 1
            self.asked += 1
            request = GenerationRequest(
                observation=f"Name a number above {count}.", version=version, key=(number, count)
            )
            self.replies.append((version, await self.engine.generate(request)))

    async def probe(self) -> None:
        """Ask for one token on and on."""
        while not self.over:
            began = time.monotonic()
            request = GenerationRequest(
                observation="Yes or no?", version=self.newest, key=(0,), sampling=ONE_TOKEN
            )
            await self.engine.generate(request)
            self.probes.append((began, time.monotonic()))


class TimedLink(HTTPLink):
    """Notes when the server loaded adapters."""

    def __init__(self, server: VLLMServer | str) -> None:
        super().__init__(server, ends_server=True)
        self.loads: list[Span] = []

    async def load(self, name: str, folder: Path) -> None:
        """See `HTTPLink`."""
        began = time.monotonic()
        await super().load(name, folder)
        self.loads.append((began, time.monotonic()))


def versions(base: BaseModel, transport: FilesTransport, count: int) -> list[WeightUpdate]:
    """Published adapters with weights of their own."""
    drawn = torch.Generator().manual_seed(1)
    published = []
    for number in range(count):
        tensors = {
            key: tensor + 0.01 * torch.randn(tensor.shape, generator=drawn)
            for key, tensor in base.adapter_tensors("alice").items()
        }
        published.append(transport.publish(version_of("alice", number, tensors), tensors))
    return published


async def measure(
    engine: VLLMEngine, link: TimedLink, updates: list[WeightUpdate], clients: int
) -> dict[str, Any]:
    """Change versions under load."""
    await engine.install(updates[0])
    link.loads.clear()
    load = Load(engine, updates[0].version)
    tasks = [asyncio.create_task(load.client(number)) for number in range(1, clients + 1)]
    tasks.append(asyncio.create_task(load.probe()))
    installs: list[Span] = []
    retired_s: list[float] = []
    for update in updates[1:]:
        await asyncio.sleep(3.0)
        stale, began = load.newest, time.monotonic()
        await engine.install(update)
        installs.append((began, time.monotonic()))
        load.newest = update.version
        await engine.retire(stale)
        retired_s.append(time.monotonic() - installs[-1][1])
    load.over = True
    await asyncio.gather(*tasks)
    await engine.close()
    calm_s = [e - b for b, e in load.probes if not any(b < y and x < e for x, y in link.loads)]
    usual_s = float(np.median(calm_s))
    pauses_ms = [
        1000 * max([e - b - usual_s for b, e in load.probes if b < y and x < e] or [0.0])
        for x, y in link.loads
    ]
    whole = [reply.finish == "stop" or len(reply.token_ids) == REPLY for _, reply in load.replies]
    return {
        "updates": len(installs),
        "install_ms": _spread([1000 * (end - begin) for begin, end in installs]),
        "load_ms": _spread([1000 * (end - begin) for begin, end in link.loads]),
        "retire_ms": _spread([1000 * s for s in retired_s]),
        "pause_ms": _spread([max(0.0, pause) for pause in pauses_ms]),
        "probe_ms": _spread([1000 * s for s in calm_s]),
        "asked": load.asked,
        "answered": len(load.replies),
        "fragments": whole.count(False),
        "wrong_version": sum(reply.version != version for version, reply in load.replies),
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(float(np.median(values)), 1),
        "p90": round(float(np.quantile(values, 0.9)), 1),
        "max": round(max(values), 1),
    }


def _started(log: Path) -> VLLMServer:
    settings = VLLMServerSettings(
        model=str(catalog.resolve(MODEL)), max_versions=4, max_running=16, max_length=CONTEXT,
        dtype="float32", cache_gib=1, compiled=False,
    )  # fmt: skip
    server = VLLMServer(settings, log)
    server.start()
    return server


def main() -> None:
    """Print the measurements, and write them to a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument(
        "--url", default="", help="of a server that serves; one is started if absent"
    )
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    base = BaseModel.load(MODEL)
    base.add_adapter("alice", 0)
    with tempfile.TemporaryDirectory() as scratch:
        transport = FilesTransport(Path(scratch) / "versions")
        server: VLLMServer | str = options.url or _started(Path(scratch) / "server.log")
        link = TimedLink(server)
        engine = VLLMEngine(
            link,
            base.chat,
            SamplingSettings(max_new_tokens=REPLY),
            context_length=CONTEXT,
            adapters=served_adapters(base),
            open_update=transport.open,
            max_versions=4,
        )
        published = versions(base, transport, options.updates + 1)
        found = asyncio.run(measure(engine, link, published, options.clients))
    where = {
        "clients": options.clients,
        "machine": f"{psutil.cpu_count()} cores, {platform.machine()}, load {psutil.getloadavg()[0]:.1f}",
        "commit": commit(),
    }
    options.json.write_text(json.dumps(found | where, indent=1) + "\n")
    print(json.dumps(found | where, indent=1))


if __name__ == "__main__":
    main()
