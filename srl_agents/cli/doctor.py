"""`srl doctor [RUN]`: faults of this machine or of a run, with a remedy for each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

DESCRIPTION = """Look for what is wrong, likeliest first, and say what helps.

With a RUN: what its metrics and its faults say. Without: this machine's packages, GPU and driver, memory,
disk, shared memory, sandbox, and one token through each engine. Where SRL_VLLM_PYTHON names an interpreter
with vLLM, a server is started for that, which takes a minute on a CPU.

Examples:
  srl doctor
  srl doctor runs/quickstart-tiny-seed0
  srl doctor runs/quickstart-tiny-seed0 --json

Exit code: 0 nothing is wrong, 1 something is, 2 the folder holds no run.
"""


@dataclass(frozen=True)
class DoctorOptions(JSONOptions):
    """Options of `srl doctor`."""

    run: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="[RUN]")] = None
    """Folder of a run of `srl train`; the machine if absent."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl doctor --help`."""
    options = read_options(DoctorOptions, command="srl doctor", description=DESCRIPTION, argv=argv)
    return _machine(options.json) if options.run is None else _run(options.run, options.json)


def _run(folder: Path, as_json: bool) -> int:
    from srl_agents.training.faults.diagnosis import diagnose
    from srl_agents.training.folder.layout import RECIPE
    from srl_agents.yaml_files import read_yaml

    if not (folder / RECIPE).is_file():
        raise ConfigError(f"{folder} holds no run. Give the folder that `srl train` named.")
    recipe = read_yaml(folder / RECIPE)
    if "agents" in recipe:
        raise ConfigError(
            f"{folder} is a run of agents that play and do not learn, which has no metrics. "
            f"`srl league status {folder}` shows its ratings."
        )
    found = diagnose(folder, recipe)
    if as_json:
        print(plain_json([asdict(one) for one in found], indent=1))
    elif not found:
        print(f"Nothing in the metrics of {folder} looks wrong.")
    else:
        for number, one in enumerate(found, 1):
            learner = f"{one.learner}: " if one.learner else ""
            print(f"{number}. {learner}{one.what.rstrip('.')}.\n   What helps: {one.remedy}.")
    return 1 if found else 0


def _machine(as_json: bool) -> int:
    from srl_agents.cli.machine_checks import examine

    checks = []
    for check in examine():
        checks.append(check)
        if not as_json:
            fix = f"\n      What helps: {check.fix}." if check.fix else ""
            print(
                f"{'ok ' if check.good else 'BAD'} {check.name}: {check.message}{fix}", flush=True
            )
    if as_json:
        found = [
            {"name": one.name, "good": one.good, "told": one.message, "fix": one.fix}
            for one in checks
        ]
        print(plain_json(found, indent=1))
    return 0 if all(check.good for check in checks) else 1
