"""The process in which `srl eval` runs Inspect: a plan on standard input, results on standard output."""

from __future__ import annotations

import json
import sys

from srl_envs.adapters.inspect_ai import run

if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.load(sys.stdin))) + "\n")
