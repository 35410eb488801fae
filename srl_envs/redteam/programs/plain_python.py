"""Results of programs in a plain interpreter: the oracle for the sandbox's verdicts."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

_CALLS = """
import importlib.util, json, pathlib, sys
task = json.loads(sys.stdin.read())
path = pathlib.Path("candidate.py")
path.write_bytes(task["program"].encode())
spec = importlib.util.spec_from_file_location("candidate", path)
module = importlib.util.module_from_spec(spec)
sys.modules["candidate"] = module
spec.loader.exec_module(module)
values = []
for args in task["calls"]:
    try:
        values.append(json.loads(json.dumps(getattr(module, task["function"])(*args))))
    except Exception as error:
        values.append({"raised": type(error).__name__})
print("\\n" + json.dumps(values))
"""


def call_values(program: str, function: str, calls: list[list[Any]]) -> list[Any] | None:
    """What the function returns, as JSON values; None where the program does not get that far.

    The program comes from SRL's own templates, so it runs unconfined.
    """
    task = json.dumps({"program": program, "function": function, "calls": calls})
    result = run_script(_CALLS, task)
    if result is None:
        return None
    try:
        values: list[Any] = json.loads(result.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return values


def run_script(script: str, stdin: str = "", timeout_s: float = 10.0) -> str | None:
    """Standard output of a script; None where it fails or takes longer."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", script], input=stdin, capture_output=True,
                text=True, timeout=timeout_s, check=False, cwd=folder,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
    return done.stdout if done.returncode == 0 else None


def tests_hold(tests: str, function: str, values: list[tuple[list[Any], Any]]) -> bool:
    """Whether assert tests hold for a function that is nothing but a table of plain values."""
    script = (
        f"import json\ntable = json.loads({json.dumps(json.dumps(values))})\n"
        f"def {function}(*args):\n"
        f"    return next(v for a, v in table if a == list(args))\n{tests}\nprint('held')\n"
    )
    return (run_script(script) or "").strip().endswith("held")
