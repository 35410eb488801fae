"""`srl plan WHAT`: how much hardware a workload needs, before it is bought."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

DESCRIPTION = """usage: srl plan RECIPE [OPTIONS]
       srl plan WHAT [OPTIONS]

  RECIPE    memory and time of a training run, by phase
  kv        replay a trace of requests on described nodes, caches and links
  seeds     well-known memory budgets of RLHF beside the planner's
  parallel  tensor, pipeline and data parallelism for models beyond one card

`srl plan RECIPE --help` and `srl plan WHAT --help` explain them, with examples. A recipe's file with one
of these names is given as ./kv. Examples:
  srl plan quickstart-tiny
  srl plan seeds"""

SUBCOMMANDS = ("kv", "seeds", "parallel")
"""What can be planned beside recipes; a further one is one word here and one module."""


def main(argv: list[str]) -> int:
    """Run the plan that is asked for."""
    name, *rest = argv or ["--help"]
    if name in ("-h", "--help") and not rest:
        print(DESCRIPTION)
        return 0
    module = import_module(f"srl_agents.cli.plan.{name if name in SUBCOMMANDS else 'run'}")
    run: Callable[[list[str]], int] = module.main
    return run(rest if name in SUBCOMMANDS else argv)
