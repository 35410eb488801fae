"""Run every check that is too long for a commit, and write a page with the last results.

Parts run one after the other, each in a process of its own; a part that fails does not stop the
others. The exit status is 0 if no part that ran has failed. Examples:

    python -m tests.nightly                   # all parts: hours
    python -m tests.nightly door-verl python3.13  # only these
    python -m tests.nightly --list
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests import doors

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/nightly.json"
PAGE = ROOT / "docs/reference/nightly.md"
LOGS = ROOT / "runs/nightly"
"""One log per part."""
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")


@dataclass(frozen=True, slots=True)
class Part:
    """One check of the night."""

    what: str
    run: Callable[[Path], int]
    """Writes the output to a log; returns the exit status."""
    needs: str = ""
    """A program without which it is skipped."""


def _logged(*command: str, cwd: Path = ROOT) -> Callable[[Path], int]:
    """Run a command with its output in the log."""

    def run(log: Path) -> int:
        with log.open("ab") as out:
            return subprocess.run(
                command, cwd=cwd, check=False,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            ).returncode  # fmt: skip

    return run


def _python(name: str) -> Callable[[Path], int]:
    """Install the wheel for that Python, and run the tests of the games outside of the source."""

    def run(log: Path) -> int:
        with tempfile.TemporaryDirectory() as temporary:
            work = Path(temporary)
            work.chmod(0o755)  # some tests are another user's
            for folder in ("tests", "docs"):  # some tests read guides
                shutil.copytree(ROOT / folder, work / folder)
            for file in ("pyproject.toml", "README.md"):
                shutil.copy(ROOT / file, work)
            python = work / "venv/bin/python"
            steps: tuple[Sequence[str], ...] = (
                (sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(work), str(ROOT)),
                (name, "-m", "venv", str(work / "venv")),
                (str(python), "-m", "pip", "install", "--quiet", "pytest", "hypothesis", "mypy",
                 "WHEEL[cli,rewards,math]"),
                (str(python), "-m", "pytest", "-p", "no:cacheprovider", "-m", "not nightly", "tests/srl_envs",
                 "--ignore", "tests/srl_envs/wrappers/test_numeric_sb3.py"),  # needs torch
                (str(python), "-m", "tests.documented_code", "--ignore-missing-imports"),
            )  # fmt: skip
            for step in steps:
                wheel = next(map(str, work.glob("srl_envs-*.whl")), "")
                status = _logged(*(part.replace("WHEEL", wheel) for part in step), cwd=work)(log)
                if status:
                    return status
        return 0

    return run


def _door(door: doors.Door) -> Callable[[Path], int]:
    """Go through one door, as `make` does."""
    if door.target:
        return _logged("make", door.target)
    return _logged(sys.executable, "-m", "pytest", "-m", "slow or not slow", *door.tests)


PARTS = {
    "long": Part(
        "tests marked `nightly`: learning on the real model, long kills, whole corpora",
        _logged(
            sys.executable,
            "-m",
            "tests.workers",
            "-n",
            "2",
            "--",
            "-m",
            "nightly",
            "--durations",
            "20",
        ),
    ),
    **{
        door.part: Part(f"{door.package}: {door.ways}", _door(door))
        for door in doors.DOORS
        if door.target != "inspect"
    },
    "inspect": Part("`srl eval` through Inspect", _logged("make", "inspect")),
    "ray": Part("a local Ray cluster", _logged("make", "ray")),
    "vllm": Part("a real vLLM server on the CPU", _logged("make", "vllm")),
    **{
        name: Part(f"the wheel and the tests of `srl_envs` on {name}", _python(name), needs=name)
        for name in PYTHONS
    },
}


def run_part(name: str) -> dict[str, Any]:
    """Run one part and return its row of the page."""
    part = PARTS[name]
    if part.needs and shutil.which(part.needs) is None:
        return {"result": f"skipped: no {part.needs} on this machine", "status": None}
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    log.unlink(missing_ok=True)
    started = time.monotonic()
    status = part.run(log)
    result = _last_count(log)
    if not result or (
        status and " failed" not in result
    ):  # a later step has failed, without a count
        result += f"{'; ' if result else ''}exit status {status}: {_last_line(log)}"
    return {
        "result": result,
        "status": status,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def _last_count(log: Path) -> str:
    """Pytest's closing lines, such as ``11 passed in 3.2s``, joined."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    counts = [line.strip("= ").split(" in ")[0] for line in lines if _is_count(line)]
    return "; ".join(counts)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line.strip()[:120] for line in reversed(lines) if line.strip()), "no output")


def _is_count(line: str) -> bool:
    words = line.strip("= ").split()
    return len(words) >= 4 and words[0].isdigit() and words[1].strip(",") in ("passed", "failed")


def page(rows: dict[str, dict[str, Any]]) -> str:
    """The page in Markdown."""
    lines = [
        "# Nightly checks",
        "",
        "Written by `python -m tests.nightly`; do not edit. `make nightly` runs every check that is too",
        "long for a commit; `make nightly PARTS=door-verl` runs one part.",
        "",
        "| part | what | last run | commit | minutes | result |",
        "|---|---|---|---|--:|---|",
    ]
    for name, part in PARTS.items():
        row = rows.get(name, {"date": "never"})
        cells = (str(row.get(key, "")) for key in ("date", "commit", "minutes", "result"))
        lines.append(f"| {name} | {part.what} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, write their rows and the page; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--list", action="store_true", help="print the parts and end")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    if options.list:
        print("\n".join(f"{name:12} {part.what}" for name, part in PARTS.items()))
        return 0
    failed = 0
    for name in options.parts or PARTS:
        print(f"{name}: {PARTS[name].what} ...", flush=True)
        row = run_part(name)
        print(f"{name}: {row['result']}", flush=True)
        failed += bool(row["status"])
        rows = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        commit = subprocess.check_output(
            ("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, text=True
        )
        rows[name] = row | {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit.strip()}
        RESULTS.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
        PAGE.write_text(page(rows))
        doors.PAGE.write_text(doors.page(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
