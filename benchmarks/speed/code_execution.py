"""Programs per second: our sandbox, a fresh interpreter, bubblewrap and EvalPlus, same program.

    python -m benchmarks.speed.code_execution [--seconds 4] [--rounds 3] [--json FILE]
        [--evalplus-python PYTHON]

Every contestant runs ``def solve(a, b): return a + b`` and is asked for ``solve(3, 4)``, as often as
it can. "Fresh" is one new process per call; "shared" is one process per submission of 20 calls. The
contestants take turns, each in processes of its own, pinned to the first one or two processors; the
best round counts, because a busy machine only ever slows a round down. CPU seconds are those of all
processes of a contestant that were waited for at its end (bubblewrap leaves before its children do,
so it has none).

EvalPlus forks a copy of the calling process and compares inside the copy, without isolation; it is
the public executor of RL pipelines that installs most easily (``pip install evalplus``, in an
environment of its own, named by ``--evalplus-python``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PROGRAM = "def solve(a, b):\n    return a + b\n"
SCRIPT = PROGRAM + "import json, sys\nprint(json.dumps(solve(*json.load(sys.stdin))))\n"
CALLS = 20
BATCH = 40  # submissions of one call that are handed over at once
FRESH, SHARED, BARE, BWRAP, EVALPLUS = (
    "SRL, fresh process per call",
    "SRL, one process per submission",
    "fresh python per call",
    "bubblewrap, fresh python per call",
    "EvalPlus, one fork per submission",
)
CONTESTANTS = (FRESH, SHARED, BARE, BWRAP, EVALPLUS)
Result = dict[str, Any]


def srl(*, shared: bool, seconds: float, submission: bool) -> list[float]:
    """Seconds of each submission; without ``submission``, of batches of single calls."""
    from srl_envs.sandbox import CodeExecutor

    call = {"function": "solve", "args": [3, 4], "expected": 7}
    with CodeExecutor() as executor:

        def submit() -> None:
            outcomes = executor.run(PROGRAM, [call] * CALLS, one_process=shared)
            assert all(outcome.passed for outcome in outcomes)

        def batch() -> None:
            count = BATCH // CALLS if shared else BATCH
            work = [(PROGRAM, [call] * (CALLS if shared else 1))] * count
            found = executor.run_batch(work, one_process=shared)
            assert all(outcome.passed for outcomes in found for outcome in outcomes)

        submit()
        return repeat(submit if submission else batch, seconds)


def interpreter(
    command: Sequence[str], *, cores: int, seconds: float, submission: bool
) -> list[float]:
    """A new interpreter per call, as many side by side as there are processors."""

    def one() -> None:
        done = subprocess.run(
            [*command, "-c", SCRIPT],
            input="[3, 4]",
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == 7

    def many(count: int) -> None:
        def share() -> None:
            for _ in range(count // cores):
                one()

        threads = [threading.Thread(target=share) for _ in range(cores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return repeat(lambda: many(CALLS if submission else BATCH), seconds)


def evalplus(*, seconds: float, calls: int) -> list[float]:
    """One `untrusted_check` after the other; run several workers for several processors."""
    from evalplus.eval import untrusted_check

    inputs, expected, times = [[3, 4]] * calls, [7] * calls, [0.1] * calls

    def check() -> None:
        status, _ = untrusted_check("humaneval", PROGRAM, inputs, "solve", expected, 0, times)
        assert status == "pass"

    check()
    return repeat(check, seconds)


def repeat(work: Callable[[], None], seconds: float) -> list[float]:
    """Seconds of each turn."""
    turns = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        work()
        turns.append(time.perf_counter() - start)
    return turns


def work(name: str, cores: int, seconds: float, submission: bool) -> Result:
    """Run one contestant in this process and count."""
    started = time.perf_counter()
    if name in (FRESH, SHARED):
        turns = srl(shared=name == SHARED, seconds=seconds, submission=submission)
    elif name == EVALPLUS:
        turns = evalplus(seconds=seconds, calls=CALLS if submission else 1)
    else:
        command = ["bwrap", *BWRAP_ARGUMENTS, python()] if name == BWRAP else [python()]
        turns = interpreter(command, cores=cores, seconds=seconds, submission=submission)
    per_turn = CALLS if submission else 1 if name == EVALPLUS else BATCH
    use = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "calls": len(turns) * per_turn,
        "wall_s": sum(turns),
        "with_start_s": time.perf_counter() - started,
        "cpu_s": sum(u.ru_utime + u.ru_stime for u in use),
        "turns_s": turns,
    }


BWRAP_ARGUMENTS = (
    "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--tmpfs", "/",
    "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
    "--dev", "/dev", "--proc", "/proc",
)  # fmt: skip


def python() -> str:
    """The system's interpreter: one that bubblewrap can show without showing a home."""
    return shutil.which("python3", path="/usr/bin:/bin") or sys.executable


def measure(
    name: str, cores: int, seconds: float, *, submission: bool, evalplus_python: str
) -> Result:
    """One round of one contestant, in processes of its own."""
    executable = evalplus_python if name == EVALPLUS else sys.executable
    options = {"name": name, "cores": cores, "seconds": seconds, "submission": submission}
    workers = [
        subprocess.Popen(
            [executable, "-m", "benchmarks.speed.code_execution", "--worker", json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(cores if name == EVALPLUS else 1)
    ]
    results = [json.loads(worker.communicate()[0]) for worker in workers]
    calls = sum(result["calls"] for result in results)
    return {
        "calls_per_s": calls / max(result["wall_s"] for result in results),
        "cpu_ms_per_call": 1000 * sum(result["cpu_s"] for result in results) / calls,
        "turns_s": [turn for result in results for turn in result["turns_s"]],
    }


def best(rounds: Sequence[Result]) -> Result:
    """The fastest round; the least CPU time may come from another one."""
    fastest = max(rounds, key=lambda result: result["calls_per_s"])
    return {**fastest, "cpu_ms_per_call": min(result["cpu_ms_per_call"] for result in rounds)}


def percentile(values: Sequence[float], share: float) -> float:
    """By rank, without interpolation."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def available(evalplus_python: str) -> list[str]:
    """Contestants that are installed; prints those that are not."""
    absent = set()
    if not shutil.which("bwrap"):
        absent.add(BWRAP)
    check = [evalplus_python, "-c", "import evalplus.eval"]
    if subprocess.run(check, capture_output=True, check=False).returncode:
        absent.add(EVALPLUS)
    for name in sorted(absent):
        print(f"not installed, so left out: {name}")
    return [name for name in CONTESTANTS if name not in absent]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/code_execution.json"))
    parser.add_argument("--evalplus-python", default=sys.executable)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        task = json.loads(options.worker)
        processors = sorted(os.sched_getaffinity(0))[: task["cores"]]
        os.sched_setaffinity(0, processors)
        print(json.dumps(work(**task)))
        return
    names = available(options.evalplus_python)
    cases = [
        (cores, submission)
        for submission in (False, True)
        for cores in (1, 2)
        if cores <= len(os.sched_getaffinity(0)) and (cores == 2 or not submission)
    ]
    rounds: dict[tuple[str, int, bool], list[Result]] = {}
    for number in range(options.rounds):
        for cores, submission in cases:
            for name in names:
                print(
                    f"round {number + 1} of {options.rounds}: {name}, {cores} cores",
                    file=sys.stderr,
                )
                result = measure(
                    name,
                    cores,
                    options.seconds,
                    submission=submission,
                    evalplus_python=options.evalplus_python,
                )
                rounds.setdefault((name, cores, submission), []).append(result)
    found = {key: best(results) for key, results in rounds.items()}
    report(found, names, cases)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(summary(found), indent=2) + "\n")


def report(
    found: dict[tuple[str, int, bool], Result],
    names: Sequence[str],
    cases: Sequence[tuple[int, bool]],
) -> None:
    """The tables, in Markdown."""
    for cores, submission in cases:
        if submission:
            print(f"\nsubmissions of {CALLS} calls, {cores} cores\n")
            print("| | calls/s | p50, ms | p99, ms |\n|---|--:|--:|--:|")
            for name in names:
                result = found[name, cores, submission]
                turns = [1000 * turn for turn in result["turns_s"]]
                p50, p99 = percentile(turns, 0.5), percentile(turns, 0.99)
                print(f"| {name} | {result['calls_per_s']:,.0f} | {p50:.1f} | {p99:.1f} |")
        else:
            bare = found[BARE, cores, submission]["calls_per_s"]
            print(f"\nsingle calls, {cores} core{'s' * (cores > 1)}\n")
            print("| | calls/s | CPU ms per call | times a fresh python |\n|---|--:|--:|--:|")
            for name in names:
                result = found[name, cores, submission]
                rate = result["calls_per_s"]
                cpu = "" if name == BWRAP else f"{result['cpu_ms_per_call']:.2f}"
                print(f"| {name} | {rate:,.0f} | {cpu} | {rate / bare:.1f} |")


def summary(found: dict[tuple[str, int, bool], Result]) -> Result:
    """What is kept of a run."""
    return {
        "machine": {"python": platform.python_version(), "processors": os.cpu_count()},
        "results": [
            {
                "contestant": name,
                "cores": cores,
                "calls_per_turn": CALLS if submission else 1,
                "calls_per_s": round(result["calls_per_s"], 1),
                "cpu_ms_per_call": (None if name == BWRAP else round(result["cpu_ms_per_call"], 3)),
                "p50_ms": round(1000 * percentile(result["turns_s"], 0.5), 2)
                if submission
                else None,
                "p99_ms": round(1000 * percentile(result["turns_s"], 0.99), 2)
                if submission
                else None,
            }
            for (name, cores, submission), result in found.items()
        ],
    }


if __name__ == "__main__":
    main()
