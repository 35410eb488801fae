"""`srl serve MODEL`: start a vLLM server, watch it, start it again when it dies."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from srl_agents.agents.grammar import HUMAN
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import MetricsOptions, positional
from srl_agents.cli.person import browser as serve_human
from srl_agents.engines.vllm.options import VLLMServerSettings, server_settings
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.engines.vllm.server import VLLMServer

DESCRIPTION = """Serve a model with vLLM, ready for training and for seats.

vLLM needs an environment of its own. Name its interpreter with --python or SRL_VLLM_PYTHON;
`srl docs serve` shows how to make one. The server ends with this command.

Examples:
  srl serve smollm2-135m --python .venv-vllm/bin/python
  srl serve ./my_model --port 8000 --max-versions 16 --no-compiled
  srl serve smollm2-135m --metrics-port 9400    # counters for Prometheus
  srl serve human                               # you, in the browser; see srl serve human --help
  srl play math_duel-v0 human openai:base@http://127.0.0.1:8000/v1      # while it serves
"""
PORT = 8000
"""Where no port is named."""
_LOOK_S = 1.0
"""Between two looks whether the server lives."""


@dataclass(frozen=True, kw_only=True)
@positional("model", "MODEL")
class ServeOptions(VLLMServerSettings, MetricsOptions):
    """What to serve and how."""

    log: Path = Path("vllm.log")
    """File that the server's output is added to."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl serve --help`."""
    if argv[:1] == [HUMAN]:
        return serve_human.main(argv[1:])
    options = read_options(ServeOptions, command="srl serve", description=DESCRIPTION, argv=argv)
    return serve(options)


def serve(options: ServeOptions) -> int:
    """Exit code: 0 when it was ended by a signal to this command."""
    from srl_agents.engines.vllm.metrics_page import page_of
    from srl_agents.engines.vllm.server import VLLMServer
    from srl_agents.metrics.prometheus import metrics_page
    from srl_agents.models.sources import catalog

    if not options.log.parent.is_dir():
        raise ConfigError(f"--log {options.log}: {options.log.parent} is not a folder.")
    # a missing interpreter ends the command here, before a model is fetched
    python = options.interpreter
    port = PORT if options.port is None else options.port
    settings = server_settings(
        options, python=python, port=port, model=str(catalog.resolve(options.model))
    )
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
