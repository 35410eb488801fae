"""Everything that only a card can show, in ten minutes on one card; `make gpu` runs it.

    python -m benchmarks.gpu.checks                          # all steps on the card
    python -m benchmarks.gpu.checks qwen2.5-7b --record      # one step, and its row of the page
    python -m benchmarks.gpu.checks --device cpu             # every step at small size

Each step runs in a process of its own with a limit of its own, so a step that crashes or hangs stops no
other. The exit status is 0 if no step has failed. With ``--record`` the results go into
benchmarks/results/gpu_checks.json and docs/reference/gpu_checks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/gpu_checks.json"
PAGE = ROOT / "docs/reference/gpu_checks.md"
_LITTLE = {"rollout.start_states": 4, "rollout.group_size": 4, "rollout.max_new_tokens": 8,
           "rollout.batch_rows": 8, "training.optimizer": "adamw_torch"}  # fmt: skip
"""Of a recipe on a CPU."""
_CARD = {"rollout.start_states": 2, "rollout.max_new_tokens": 64}
"""Of a recipe on a card: few rows, as a learner starts its kernels one by one."""
_NOT_RUN = "not run: "


@dataclass(frozen=True, slots=True)
class Step:
    """One step of `make gpu`."""

    what: str
    run: Callable[[str, bool], dict[str, Any]]
    """(device, broken) -> results; ``passed`` is one of them."""
    limit_s: float


def _tests(*files: str) -> Callable[[str, bool], dict[str, Any]]:
    """Files of tests/gpu; a test that takes a minute reports its progress."""

    def run(device: str, broken: bool) -> dict[str, Any]:
        if device == "cpu":
            return {"passed": not broken, "result": _NOT_RUN + "these tests need a card"}
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            command = [sys.executable, "-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider", "-o",
                       "faulthandler_timeout=60", "--junitxml", str(report), *files]  # fmt: skip
            done = subprocess.run(command, cwd=ROOT, check=False)
            counts = _counts(report) if report.is_file() else f"exit status {done.returncode}"
        return {"passed": done.returncode == 0, "result": counts}

    return run


def _counts(report: Path) -> str:
    """Such as ``9 passed, 1 failed, 2 skipped``, with the names of what failed."""
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    failed = [str(case.get("name")) for case in suite.iter("testcase")
              if case.find("failure") is not None or case.find("error") is not None]  # fmt: skip
    skipped, ran = int(suite.get("skipped", 0)), int(suite.get("tests", 0))
    said = f"{ran - skipped - len(failed)} passed, {len(failed)} failed, {skipped} skipped"
    return f"{said}; failed: {', '.join(failed)}" if failed else said


def _quickstart(device: str, broken: bool) -> dict[str, Any]:
    """`srl train quickstart-tiny` to its end: matches, updates, round robin, export."""
    from srl_agents.metrics.sinks import METRICS, read_lines

    updates = 1 if device == "cpu" else 3
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        command = [sys.executable, "-m", "srl_agents.cli.main", "train", "quickstart-tiny", "--out", str(out),
                   "--set", f"device={device}", "--set", f"updates={updates}"]  # fmt: skip
        if device == "cpu":
            for key, value in (_LITTLE | {"evaluation.final_pairs": 1}).items():
                command += ["--set", f"{key}={value}"]
        if broken:
            command += ["--set", "training.learning_rate=1e30"]
        started = time.monotonic()
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        print(done.stderr[-3000:], file=sys.stderr)
        records = read_lines(out / METRICS)
        seconds = [r["run"]["generate_s"] + r["run"]["train_s"] for r in records[1:] or records]
        speeds = [r["run"]["tokens_per_s"] for r in records[1:] or records]
        return {
            "passed": done.returncode == 0 and len(records) == updates,
            "exit status": done.returncode,
            "updates": len(records),
            "seconds in all": time.monotonic() - started,
            "seconds per update": sum(seconds) / max(1, len(seconds)),
            "reply tokens/s": sum(speeds) / max(1, len(speeds)),
        }


def _engine(device: str, broken: bool) -> dict[str, Any]:
    from benchmarks.gpu.cpu_and_card import engine

    return engine(device, broken=broken)


def _learner(device: str, broken: bool) -> dict[str, Any]:
    from benchmarks.gpu.cpu_and_card import learner

    return learner(device, broken=broken)


def _updates(recipe: str, shape: str, **overrides: Any) -> Callable[[str, bool], dict[str, Any]]:
    def run(device: str, broken: bool) -> dict[str, Any]:
        from benchmarks.gpu.whole_updates import measure

        given = _LITTLE | {"dtype": "float32", "quantization": "none"} if device == "cpu" else _CARD
        return measure(recipe, shape, device, overrides | given, broken=broken)

    return run


STEPS = {
    "kernels": Step(
        "log-probabilities from tiles, roles to pinned memory, 4 bits, paged optimizers, packed rows through "
        "flash-attn, TF32", _tests("tests/gpu/test_memory_on_a_gpu.py"), 200),
    "cuda ipc": Step(
        "weights between two processes on the card: the kit of transports, memory that comes back, killed "
        "readers", _tests("tests/gpu/test_cuda_ipc.py"), 150),
    "vllm": Step("vLLM's host tier of keys and values, where vLLM is installed",
                 _tests("tests/gpu/test_vllm_host_tier.py"), 300),
    "quickstart": Step("`srl train quickstart-tiny`: three updates, round robin, export", _quickstart, 200),
    "engine": Step("greedy tokens and log-probabilities beside the CPU's", _engine, 100),
    "learner": Step("gradients in five layouts of rows beside the CPU's", _learner, 100),
    "qwen2.5-1.5b": Step("whole updates of `qwen2.5-1.5b-80gb`, random weights",
                         _updates("qwen2.5-1.5b-80gb", "qwen2.5-1.5b"), 240),
    "qwen2.5-7b": Step("whole updates of `qwen2.5-7b-80gb`, random weights",
                       _updates("qwen2.5-7b-80gb", "qwen2.5-7b"), 360),
    "qwen2.5-7b in 4 bits": Step("whole updates of `qwen2.5-7b-24gb`, random weights",
                                 _updates("qwen2.5-7b-24gb", "qwen2.5-7b"), 360),
}  # fmt: skip
"""In this order."""


def run_step(
    name: str, device: str, *, broken: bool = False, limit_s: float | None = None
) -> dict[str, Any]:
    """Run one step in a process of its own; its results, with seconds and what went wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "row.json"
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu.checks", name, "--device", device,
                   "--child", str(out), *(["--broken"] if broken else [])]  # fmt: skip
        started = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        limit_s = limit_s or STEPS[name].limit_s
        try:
            failure = f"exit status {process.wait(limit_s)}"
        except subprocess.TimeoutExpired:
            failure = f"more than {limit_s:.0f} s"
            os.killpg(process.pid, signal.SIGKILL)  # what it started, too
            process.wait()
        row = json.loads(out.read_text()) if out.is_file() else {"passed": False, "result": failure}
    return row | {"seconds": round(time.monotonic() - started, 1)}


def card() -> str:
    """What the results were measured on."""
    import torch
    import transformers

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return f"{name}, torch {torch.__version__}, transformers {transformers.__version__}"


def page(results: dict[str, Any]) -> str:
    """docs/reference/gpu_checks.md."""
    lines = [
        "# Checks that need a GPU",
        "",
        "Written by `python -m benchmarks.gpu.checks --record`; do not edit. `make gpu` runs every step",
        "in ten minutes on one card; `make gpu DEVICE=cpu` tries the steps at small size. A step that has",
        "never run on a card claims nothing.",
        "",
        "| step | what | last run | on | seconds | result |",
        "|---|---|---|---|--:|---|",
    ]
    for name, step in STEPS.items():
        row = results.get(name, {})
        cells = (name, step.what, row.get("date", "never"), row.get("card", ""), row.get("seconds", ""),
                 _verdict(row) if row else "")  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for name, row in results.items():
        numbers = {
            k: v
            for k, v in row.items()
            if k not in ("passed", "date", "card", "commit", "seconds", "result", "peaks")
        }
        if not numbers:
            continue
        lines += ["", f"## {name}", "", "| number | value |", "|---|--:|"]
        lines += [f"| {key} | {_shown(value)} |" for key, value in numbers.items()]
        if "peaks" in row:
            lines += [
                "",
                "| memory, GB | planned | measured | planned / measured |",
                "|---|--:|--:|--:|",
            ]
            lines += [
                f"| {phase} | {peak['planned'] / 1e9:.2f} | {peak['measured'] / 1e9:.2f} | "
                f"{peak['planned'] / max(1.0, peak['measured']):.3f} |"
                for phase, peak in row["peaks"].items()
            ]
    return "\n".join(lines) + "\n"


def _verdict(row: dict[str, Any]) -> str:
    said = str(row.get("result", ""))
    return ("passed" if row["passed"] else "FAILED") + (f": {said}" if said else "")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def record(fresh: dict[str, Any]) -> None:
    """Put fresh rows beside the kept ones, and write the page."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    results = {name: (kept | fresh)[name] for name in STEPS if name in kept | fresh}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(page(results))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", help=f"{', '.join(STEPS)}; all if absent")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--record", action="store_true", help="write results and page")
    parser.add_argument("--broken", action="store_true", help="plant a fault: every step must fail")
    parser.add_argument(
        "--limit-s", type=float, help="seconds of each step; its own limit if absent"
    )
    parser.add_argument("--out", type=Path, help="also write the rows to this file, as they come")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if unknown := [name for name in options.steps if name not in STEPS]:
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(STEPS)}.")
    if options.record and options.device == "cpu":
        parser.error("--record: the page is about cards; leave out --device cpu.")
    if options.device == "cuda" and not _has_card():
        parser.error("torch finds no CUDA device; --device cpu tries the steps at small size.")
    if options.child:
        (name,) = options.steps
        row = STEPS[name].run(options.device, options.broken)
        options.child.write_text(json.dumps(row))
        return 0
    rows: dict[str, Any] = {}
    where = {"card": card(), "commit": _commit(), "date": datetime.now(UTC).date().isoformat()}
    for name in options.steps or STEPS:
        print(f"{name}: {STEPS[name].what}", flush=True)
        found = run_step(name, options.device, broken=options.broken, limit_s=options.limit_s)
        rows[name] = found | where
        print(json.dumps(rows[name], indent=1), flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1))
    for name, row in rows.items():
        print(f"{name:22} {row['seconds']:7.1f} s  {_verdict(row)}")
    if options.record:
        record(rows)
    return 0 if all(row["passed"] for row in rows.values()) else 1


def _has_card() -> bool:
    import torch

    return torch.cuda.is_available()


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    done = subprocess.run(
        [git, "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
