"""`python -m srl_agents.training.rehearsal.own_process`: a rehearsal in a process of its own.

Reads JSON from standard input (recipe, overrides, device), and writes the result as one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from srl_envs.errors import ModelError


def rehearsed(recipe: str, overrides: tuple[str, ...], device: str) -> dict[str, Any]:
    """The result of `rehearse` from a process that is gone then.

    Raises:
        ModelError: it ended with an error; the message has its last line.
    """
    request = json.dumps({"recipe": recipe, "overrides": overrides, "device": device})
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        errors = [line for line in done.stderr.splitlines() if "Error: " in line]
        cause = errors[-1].partition(": ")[2] if errors else f"exit status {done.returncode}"
        raise ModelError(f"the rehearsal of {recipe} failed: {cause}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def main() -> None:
    """Read, rehearse and print."""
    from srl_agents.memory.devices import target_of  # noqa: PLC0415 - seconds
    from srl_agents.memory.planner import plan  # noqa: PLC0415
    from srl_agents.recipes.loading import find_recipe  # noqa: PLC0415
    from srl_agents.recipes.plan_description import describe  # noqa: PLC0415
    from srl_agents.recipes.recipe_kinds import read_recipe  # noqa: PLC0415
    from srl_agents.training.rehearsal.rehearse import rehearse  # noqa: PLC0415

    asked = json.load(sys.stdin)
    recipe: Any = read_recipe(find_recipe(asked["recipe"]), tuple(asked["overrides"]))
    target = target_of(asked["device"])
    result = rehearse(recipe, plan(describe(recipe, accelerator=True), target))
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
