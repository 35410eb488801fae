"""Is the answer matcher right, and how long does it take? Beside math-verify, in the same run.

    python -m benchmarks.rewards.answer_matching [--pairs FILE] [--rounds 5] [--json FILE] [--without-peer]

``--without-peer`` measures the matcher only, and writes no file unless ``--json`` names one.

Four sets of labelled pairs:

- ``--pairs``, by default ``../shared/data/answers_dev.jsonl``: bare answers, exact by the default
  policy. Pairs marked ``policy`` are counted apart; they are matters of opinion.
- ``tests/srl_envs/rewards/answer_pairs.jsonl``: our own, of every kind, with the policy of each.
- ``tests/srl_envs/rewards/held_back_answers.py``: labelled before a change, never tuned on.
- math-verify's own tests, read out of its source distribution with ``ast`` (``--sdist FILE``, else
  fetched with pip; left out where that fails): whole replies, in its conventions, which
  `MATH_VERIFY_POLICY` states; without and with the sandboxed fallback.

math-verify runs in a process of its own, which is killed when one comparison takes longer than
``--limit-s``: its own timeouts are switched off, being signals. A killed comparison is a refusal.
It is given both sides in ``\\boxed{}``. Times are wall time per comparison without imports: the
matcher's best of ``--rounds``, because a busy machine only ever slows one down, and math-verify's
only one, its caches warmed by another pair.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import os
import platform
import select
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from srl_envs.distribution import install_command
from srl_envs.rewards import AnswerMatcher, AnswerPolicy
from srl_envs.rewards.math_verify import MathVerify

ROOT = Path(__file__).parents[2]
DEV_PAIRS = ROOT.parent / "shared" / "data" / "answers_dev.jsonl"
OWN_PAIRS = ROOT / "tests" / "srl_envs" / "rewards" / "answer_pairs.jsonl"
HELD_BACK = OWN_PAIRS.with_name("held_back_answers.py")
MATH_VERIFY_POLICY = AnswerPolicy(
    rounded_digits=2, percent_equals_number=True, comma_decimal=True, unevaluated_ok=True
)
"""math-verify's tests: rounded values, percent signs, decimal commas and calculations count."""
MATH_VERIFY_EXTRACTION = ("boxes", "answer", "prose")

_WORKER = r"""
import json, sys, time
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

targets = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]

def same(gold, given):
    sides = [parse(text, targets, parsing_timeout=None) for text in (gold, given)]
    return bool(verify(*sides, timeout_seconds=None))

same("$x+1$", "$1+x$")
print("ready", flush=True)
for line in sys.stdin:
    gold, given = json.loads(line)
    start = time.perf_counter()
    try:
        verdict = same(gold, given)
    except Exception:
        verdict = False
    print(json.dumps([verdict, time.perf_counter() - start]), flush=True)
"""


class Pair(NamedTuple):
    """A reference, an answer, and whether they are the same."""

    gold: str
    given: str
    equal: bool
    kind: str
    policy: AnswerPolicy = AnswerPolicy()


class Verdict(NamedTuple):
    """Verdict of one grader on a pair, and its time."""

    accepted: bool
    seconds: float


class Peer:
    """math-verify in a process that can be killed.

    Args:
        limit_s: wall seconds per comparison.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.killed = 0
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if self._line(120.0) != b"ready\n":
            raise SystemExit(f"math-verify does not start: {install_command('math')}")

    def _line(self, limit_s: float) -> bytes:
        """One line of its output; empty after the limit."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], limit_s)
        return self._process.stdout.readline() if readable else b""

    def judge(self, gold: str, given: str) -> Verdict:
        """Its verdict on two texts."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([gold, given]).encode() + b"\n")
        self._process.stdin.flush()
        line = self._line(self.limit_s)
        if line:
            return Verdict(*json.loads(line))
        self.killed += 1
        self.close()
        self._start()
        return Verdict(False, self.limit_s)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()


def ours(pairs: Sequence[Pair], rounds: int) -> list[Verdict]:
    """The matcher's verdicts on bare answers, with the best time of ``rounds``."""
    matchers = {pair.policy: AnswerMatcher(pair.policy) for pair in pairs}
    found = []
    for pair in pairs:
        matcher, best, accepted = matchers[pair.policy], float("inf"), False
        for _ in range(rounds):
            start = time.perf_counter()
            accepted = matcher.compare(pair.given, answer=pair.gold).value == 1.0
            best = min(best, time.perf_counter() - start)
        found.append(Verdict(accepted, best))
    return found


def summary(pairs: Iterable[Pair], verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """Counts and times of one grader on one set of pairs."""
    rows = list(zip(pairs, verdicts, strict=True))
    times = sorted(verdict.seconds for _, verdict in rows)
    by_kind: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for pair, verdict in rows:
        by_kind[pair.kind][0] += verdict.accepted == pair.equal
        by_kind[pair.kind][1] += 1
    return {
        "pairs": len(rows),
        "right": sum(verdict.accepted == pair.equal for pair, verdict in rows),
        "false_acceptances": sum(verdict.accepted and not pair.equal for pair, verdict in rows),
        "false_refusals": sum(pair.equal and not verdict.accepted for pair, verdict in rows),
        "median_us": round(times[len(times) // 2] * 1e6, 1),
        "p99_us": round(times[int(len(times) * 0.99)] * 1e6, 1),
        "max_us": round(times[-1] * 1e6, 1),
        "by_kind": {kind: f"{right}/{total}" for kind, (right, total) in sorted(by_kind.items())},
    }


def read_pairs(path: Path) -> tuple[list[Pair], list[Pair]]:
    """The pairs of a file, and those that are marked as a matter of policy."""
    exact: list[Pair] = []
    opinion: list[Pair] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        flags = row.get("policy") or {}
        policy = AnswerPolicy(**flags) if isinstance(flags, dict) else AnswerPolicy()
        kind = row.get("category", row.get("kind", ""))
        pair = Pair(row["gold"], row["cand"], row["equal"], kind, policy)
        (opinion if row.get("policy") is True else exact).append(pair)
    return exact, opinion


def test_pairs(sdist: Path) -> list[Pair]:
    """The pairs in math-verify's tests that use its default options, each once.

    Rows of ``pytest.mark.parametrize("gold, pred, expected", [...])`` are read as literals; nothing
    of the archive is run.
    """
    found: dict[tuple[str, str], Pair] = {}
    with tarfile.open(sdist) as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            source = archive.extractfile(member) if name.startswith("test_") else None
            if source is None:
                continue
            for row in _parametrized(ast.parse(source.read())):
                if row.get("strict", True) and not row.get("allow_set_relation_comp"):
                    equal = bool(row.get("expected", row.get("result")))
                    pair = Pair(row["gold"], row["pred"], equal, name.removesuffix(".py"))
                    found[pair.gold, pair.given] = pair
    return list(found.values())


def _parametrized(tree: ast.Module) -> Iterable[Mapping[str, Any]]:
    for node in ast.walk(tree):
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if not isinstance(mark, ast.Call) or len(mark.args) != 2:
                continue
            names, rows = mark.args
            if not isinstance(names, ast.Constant) or not isinstance(rows, ast.List):
                continue
            columns = [column.strip() for column in str(names.value).split(",")]
            for row in rows.elts if columns[:2] == ["gold", "pred"] else ():
                try:
                    yield dict(zip(columns, ast.literal_eval(row), strict=True))
                except ValueError:  # computed when the test is collected: one row
                    continue


def fetch_sdist(folder: str) -> Path | None:
    """math-verify's source distribution of the installed version, None where pip cannot get it."""
    version = metadata.version("math-verify")
    for pip in ([sys.executable, "-m", "pip"], [shutil.which("pip3") or "pip"]):
        command = [*pip, "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        try:
            subprocess.run(
                [*command, "--dest", folder, f"math-verify=={version}"],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=120,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return next(Path(folder).glob("*.tar.gz"), None)
    return None


def on_its_tests(pairs: Sequence[Pair], peer: Peer) -> dict[str, Any]:
    """Both graders on math-verify's tests: whole replies, extraction included."""

    def judged(matcher: AnswerMatcher) -> list[Verdict]:
        verdicts = []
        for pair in pairs:
            start = time.perf_counter()
            answer = matcher.extract(pair.gold) or pair.gold
            accepted = matcher.score(reply=pair.given, answer=answer).value == 1.0
            verdicts.append(Verdict(accepted, time.perf_counter() - start))
        return verdicts

    extract = MATH_VERIFY_EXTRACTION
    result = {"matcher": summary(pairs, judged(AnswerMatcher(MATH_VERIFY_POLICY, extract=extract)))}
    with MathVerify() as fallback:
        matcher = AnswerMatcher(MATH_VERIFY_POLICY, extract=extract, fallback=fallback)
        result["matcher with fallback"] = summary(pairs, judged(matcher))
    result["math-verify"] = summary(pairs, [peer.judge(pair.gold, pair.given) for pair in pairs])
    return result


def held_back() -> list[Pair]:
    """The held-back pairs, read as a literal."""
    tree = ast.parse(HELD_BACK.read_text(encoding="utf-8"))
    rows = next(node.value for node in tree.body if isinstance(node, ast.AnnAssign))
    return [
        Pair(gold, given, equal, kind)
        for kind, gold, given, equal in ast.literal_eval(rows or "[]")
    ]


def on_answers(pairs: Sequence[Pair], peer: Peer | None, rounds: int) -> dict[str, Any]:
    """Both graders on bare answers; only the matcher where no peer is given."""
    if peer is None:
        return {"matcher": summary(pairs, ours(pairs, rounds))}
    boxed = [peer.judge(f"\\boxed{{{p.gold}}}", f"\\boxed{{{p.given}}}") for p in pairs]
    return {"matcher": summary(pairs, ours(pairs, rounds)), "math-verify": summary(pairs, boxed)}


def show(name: str, graders: Mapping[str, Mapping[str, Any]]) -> None:
    """Print one set's table."""
    columns = ("pairs", "right", "false_acceptances", "false_refusals", "median_us", "p99_us")
    print(f"\n{name}\n| | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
    for grader, row in graders.items():
        print(f"| {grader} | {' | '.join(str(row[column]) for column in columns)} |")
    kinds = {kind for row in graders.values() for kind in row["by_kind"]}
    for kind in sorted(kinds):
        print(f"  {kind:20s}", *(f"{row['by_kind'][kind]:>9s}" for row in graders.values()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=Path, default=DEV_PAIRS)
    parser.add_argument("--sdist", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit-s", type=float, default=20.0)
    output = ROOT / "benchmarks" / "results" / "answer_matching.json"
    parser.add_argument("--json", type=Path)
    parser.add_argument("--without-peer", action="store_true", help="leave math-verify out")
    options = parser.parse_args(arguments)

    peer = None if options.without_peer else Peer(options.limit_s)
    sets: dict[str, Any] = {}
    if options.pairs.exists():
        exact, opinion = read_pairs(options.pairs)
        sets["labelled pairs"] = on_answers(exact, peer, options.rounds)
        sets["labelled pairs, matters of policy"] = on_answers(opinion, peer, options.rounds)
    sets["our own pairs"] = on_answers(read_pairs(OWN_PAIRS)[0], peer, options.rounds)
    sets["held-back pairs"] = on_answers(held_back(), peer, options.rounds)
    if peer is not None:
        with tempfile.TemporaryDirectory() as folder:
            sdist = options.sdist or fetch_sdist(folder)
            if sdist:
                sets["math-verify's own tests"] = on_its_tests(test_pairs(sdist), peer)
        peer.close()
    for name, graders in sets.items():
        show(name, graders)
    if peer is not None:
        print(f"\nmath-verify was killed {peer.killed} times, after {options.limit_s:g} s each.")
    elif options.json is None:
        return
    result = {
        "command": "python -m benchmarks.rewards.answer_matching",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "math-verify": metadata.version("math-verify"),
        "limit_s": options.limit_s,
        "killed": peer.killed if peer else 0,
        "sets": sets,
    }
    (options.json or output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
