"""`srl serve MODEL`: start a vLLM server, watch it, start it again when it dies."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from srl_agents.agents.grammar import HUMAN
from srl_agents.cli.command_line import read_options
from srl_agents.cli.person import browser as serve_human
from srl_agents.engines.vllm.cache import VLLMCache
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.engines.vllm.server import VLLMServer

DESCRIPTION = """Serve a model with vLLM, ready for training and for seats.

vLLM needs an environment of its own. Name its interpreter with --python or SRL_VLLM_PYTHON;
docs/guides/serve.md shows how to make one. The server ends with this command.

Examples:
  srl serve smollm2-135m --python .venv-vllm/bin/python
  srl serve ./my_model --port 8000 --max-versions 16 --no-compiled
  srl serve smollm2-135m --metrics-port 9400    # counters for Prometheus
  srl serve human                               # you, in the browser; see srl serve human --help
  srl play math_duel-v0 human openai:base@http://127.0.0.1:8000/v1      # while it serves
"""
_LOOK_S = 1.0
"""Between two looks whether the server lives."""


@dataclass(frozen=True)
class ServeOptions:
    """What to serve and how."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """``tiny``, ``smollm2-135m``, a hub id, or a folder."""
    python: str = ""
    """Interpreter with vLLM; SRL_VLLM_PYTHON if absent."""
    host: str = "127.0.0.1"
    """Address that it listens on. Any client that reaches it can load adapters."""
    port: int = 8000
    """0 takes a free one."""
    lora_rank: int = 8
    """Largest rank of an adapter; 0 serves the base without adapters."""
    max_versions: int = 8
    """Adapters that are loaded at once."""
    max_running: int = 64
    """Replies in one batch."""
    max_length: int | None = None
    """Prompt and reply together, in tokens; the model's own if absent."""
    dtype: str = "auto"
    """Number type of the weights; ``float32`` agrees best with training on a CPU."""
    block_tokens: int | None = None
    """Tokens in one block of the prefix cache; vLLM's own if absent."""
    cache_gib: int | None = None
    """Whole GiB of keys and values on a CPU."""
    cache: VLLMCache = field(default_factory=VLLMCache)
    """Settings of the KV cache."""
    kv_events: bool = False
    """Count the blocks that it stores and removes, on the page of --metrics-port."""
    memory_share: float | None = None
    """Of the device's memory; if absent 0.85 of a GPU, and on a CPU at most half of what is free."""
    no_compiled: bool = False
    """Do not compile the model: the server starts at once and samples more slowly."""
    log: Path = Path("vllm.log")
    """File that the server's output is added to."""
    metrics_port: int | None = None
    """Port of a page for Prometheus that also answers while vLLM is down; 0 takes a free one."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl serve --help`."""
    if argv[:1] == [HUMAN]:
        return serve_human.main(argv[1:])
    options = read_options(ServeOptions, command="srl serve", description=DESCRIPTION, argv=argv)
    return serve(options)


def serve(options: ServeOptions) -> int:
    """Exit code: 0 when it was ended by a signal to this command."""
    from srl_agents.engines.vllm.metrics_page import page_of
    from srl_agents.engines.vllm.server import VLLMServer, VLLMServerSettings
    from srl_agents.metrics.prometheus import metrics_page
    from srl_agents.models.sources import catalog

    if not options.log.parent.is_dir():
        raise ConfigError(f"--log {options.log}: {options.log.parent} is not a folder.")
    asked = VLLMServerSettings(
        model=options.model,
        python=options.python,
        host=options.host,
        port=options.port,
        lora_rank=options.lora_rank,
        max_versions=options.max_versions,
        max_running=options.max_running,
        max_length=options.max_length,
        dtype=options.dtype,
        block_tokens=options.block_tokens,
        cache_gib=options.cache_gib,
        cache=options.cache,
        kv_events=options.kv_events,
        memory_share=options.memory_share,
        compiled=not options.no_compiled,
    )
    # a missing interpreter ends the command here, before a model is fetched
    settings = replace(asked, python=asked.interpreter, model=str(catalog.resolve(options.model)))
    server = VLLMServer(settings, options.log, lambda line: print(line, file=sys.stderr))
    print(
        f"starting vLLM with {options.model}; its output is in {options.log} ...", file=sys.stderr
    )
    with ExitStack() as opened:
        opened.callback(server.close)
        counters = f"{server.url}/metrics"
        if options.metrics_port is not None:
            page = metrics_page(options.host, options.metrics_port, lambda: page_of(server))
            counters = opened.enter_context(page)
        return _watch(server, options.model, counters)


def _watch(server: VLLMServer, model: str, counters: str) -> int:
    """Start it, say where it is, and start it again when it dies."""
    try:
        server.start()
        print(
            f"serving {model} at {server.url}\n"
            f"  in a recipe:  engine: {{kind: vllm, url: {server.url}}}\n"
            f"  in a seat:    openai:base@{server.url}/v1\n"
            f"  for Prometheus: {counters}\n"
            "Ctrl-C ends it.",
            flush=True,
        )
        while True:
            time.sleep(_LOOK_S)
            server.revive()
    except KeyboardInterrupt:
        print("ended.", file=sys.stderr)
        return 0
