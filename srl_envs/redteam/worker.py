"""Attacks one target in a process of its own: ``python -P worker.py`` with a job as JSON on its input.

The suite under attack is the ``srl_envs`` that Python's path names first; the red team is always the one
that stands beside this file. So one red team attacks any checkout of the suite.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path


def adopt() -> None:
    """Make this folder the ``srl_envs.redteam`` of whatever ``srl_envs`` is imported."""
    import srl_envs  # noqa: F401, PLC0415 - the suite under attack

    here = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        "srl_envs.redteam", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{here} holds no package")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


def main() -> int:
    """Read a job, attack, write the report as JSON to standard output."""
    adopt()
    from srl_envs.redteam import attack, budget  # noqa: PLC0415 - the adopted one

    job = json.loads(sys.stdin.read())
    if job.get("list"):
        sys.stdout.write(json.dumps(attack.targets()))
        return 0
    limit = budget.Budget(seconds=job["seconds"], steps=job.get("steps"))
    report = attack.attack(job["target"], seed=job["seed"], budget=limit)
    sys.stdout.write(json.dumps(report.to_data()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
