"""`srl reproduce EXPERIMENT/ARENA/ARM`: run one arm with one seed again, and compare."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import srl_agents
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import RandomOptions, SubjectOptions
from srl_envs.errors import ConfigError

DESCRIPTION = """Run one arm of an announced experiment with one seed, and compare it with the stored result.

It takes minutes on one core. On the machine that measured the stored result the last weights are equal bit
for bit where the recipe has `order: exact`; elsewhere rounding differs, and the new number must lie where one
more seed of the arm would (95 %). Needs a checkout of the repository, which holds experiments and results:
docs/report.md, docs/experiments/preregistered.

Exit code: 0 reproduced, 1 not, 2 something in the command is wrong.

Examples:
  srl reproduce credit_by_forks/hanabi/c3
  srl reproduce "credit_by_forks/hanabi/group per episode" --seed 3
"""
MODULE = "benchmarks.experiments"


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(SubjectOptions, RandomOptions):
    """Which result: an arm and a seed of it."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl reproduce --help`."""
    options = read_options(
        ReproduceOptions, command="srl reproduce", description=DESCRIPTION, argv=argv
    )
    return reproduce(options, Path(srl_agents.__file__).parents[1])


def reproduce(options: ReproduceOptions, checkout: Path) -> int:
    """Exit code of the program that measures.

    Raises:
        ConfigError: ``checkout`` holds no experiments.
    """
    if not (checkout / MODULE.replace(".", "/")).is_dir():
        raise ConfigError(
            "experiments and their results are in the repository, not in the package; clone it and install "
            "it with `make install`."
        )
    command = [
        sys.executable,
        "-m",
        MODULE,
        "reproduce",
        options.what,
        "--seed",
        str(options.seed),
    ]
    own = {
        "PYTHONPATH": str(checkout)
    }  # processes of a command import nothing from where they start
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **own}
    return subprocess.run(command, check=False, cwd=checkout, env=environment).returncode
