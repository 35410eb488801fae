"""The best programs that read the prompt, for one company of a game or more.

    python -m benchmarks.environments.readers blotto-v0 --company strong --seconds 70

Prints a line per program that was confirmed on fresh instances. `srl redteam` does the same with all
companies and other probes beside it.
"""

from __future__ import annotations

import argparse
import sys

from srl_envs.redteam.budget import Budget
from srl_envs.redteam.readers.hunt import hunt


def main() -> int:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env")
    parser.add_argument("--company", action="append", default=[], help="a bot's name, or itself")
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    allowance = Budget(seconds=asked.seconds).whole()
    for found in hunt(asked.env, asked.seed, allowance, asked.company):
        earned = f"earns {found.earned:+.3f}, strong {found.strong:+.3f}, gain {found.gain}"
        line = f"{asked.env}, {found.company}: {earned}, {found.cpu_s:.0f} s: {found.program}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
