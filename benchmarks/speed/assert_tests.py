"""Processor time of assert tests in the sandbox, program and tests together.

    python -m benchmarks.speed.assert_tests [--rounds 15]

Run it in two checkouts to compare them; the least of the rounds counts, because a busy machine only
ever slows a round down.
"""

from __future__ import annotations

import argparse

CASES = {
    "one assert": ("def solve(a, b): return a + b", "assert solve(3, 4) == 7"),
    "2000 calls": (
        "def solve(n): return n * n",
        "for n in range(2000): assert solve(n) == n ** 2",
    ),
    "300 calls with lists": (
        "def solve(a): return sorted(a)",
        "import random\nr = random.Random(1)\nfor n in range(300):\n"
        "  a = [r.random() for _ in range(50)]\n  assert solve(a) == sorted(a)",
    ),
    "10 calls with 20,000 items": (
        "def solve(a): return a[::-1]",
        "a = list(range(20000))\nfor n in range(10): assert solve(a) == a[::-1]",
    ),
    "a class, 400 methods": (
        "class Stack:\n  def __init__(self): self.d = []\n"
        "  def push(self, x): self.d.append(x)\n  def pop(self): return self.d.pop()",
        "s = Stack()\nfor i in range(200): s.push(i)\n"
        "for i in range(200): assert s.pop() == 199 - i",
    ),
}


def main() -> None:
    """Print one line per case."""
    from srl_envs.sandbox import CodeExecutor

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with CodeExecutor() as executor:
        for name, (program, tests) in CASES.items():
            outcomes = [executor.run_asserts(program, tests) for _ in range(rounds)]
            assert all(outcome.passed for outcome in outcomes), outcomes[0]
            print(f"{name:28s}{1000 * min(outcome.cpu_s for outcome in outcomes):8.1f} ms")


if __name__ == "__main__":
    main()
