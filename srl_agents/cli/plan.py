"""`srl plan WHAT`: how much hardware a workload needs, before it is bought."""

from __future__ import annotations

import sys
from collections.abc import Callable

from srl_agents.cli import plan_kv
from srl_envs.errors import nearest

DESCRIPTION = """usage: srl plan WHAT [OPTIONS]

  kv    replay a trace of requests on described nodes, caches and links

`srl plan kv --help` explains it, with examples."""

PLANS: dict[str, Callable[[list[str]], int]] = {"kv": plan_kv.main}
"""What can be planned; a further one is one line here and one module."""


def main(argv: list[str]) -> int:
    """Run the plan that is asked for."""
    name, *rest = argv or ["--help"]
    if name in ("-h", "--help"):
        print(DESCRIPTION)
        return 0
    if name not in PLANS:
        print(
            f"srl plan: no plan {name!r}.{nearest(name, PLANS)} There is {', '.join(PLANS)}.",
            file=sys.stderr,
        )
        return 2
    return PLANS[name](rest)
