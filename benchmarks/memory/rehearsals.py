"""Peaks by plan and by rehearsal, of every shipped recipe that names a card, of PPO and of DPO.

    python -m benchmarks.memory.rehearsals [CASE ...] [--out benchmarks/results/rehearsals.json]

A rehearsal runs learning and generation at full size on a device without numbers, and shares no formula with
the planner. The table goes to the standard output and into docs/design/rehearsal.md; cases that are not
given keep their row.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from srl_agents.cli.plan.recipes import NEEDS
from srl_agents.recipes.loading import SHIPPED
from srl_agents.training.rehearsal.own_process import rehearsed

RESULTS = Path(__file__).parents[1] / "results/rehearsals.json"
PAGE = Path(__file__).parents[2] / "docs/design/rehearsal.md"
PHASES = ("rollout", "judge", "reference", "train", "step")


def on_cards() -> dict[str, str]:
    """Shipped recipes whose header names a card, with the card."""
    stated = {path.stem: NEEDS.search(path.read_text("utf-8")) for path in SHIPPED.glob("*.yaml")}
    cards = {name: found[4] or "a100-80gb" for name, found in stated.items() if found}
    return {name: card for name, card in sorted(cards.items()) if card != "cpu"}


_TRAINING = "learning_rate: 1.0e-5, optimizer: adamw_8bit, micro_batch_rows: 8, gradient_checkpointing: true"
_PPO = f"training={{algorithm: ppo, critic: base, kl_coef: 0.1, {_TRAINING}}}"
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    **{name: (name, device, ()) for name, device in on_cards().items()},
    "PPO, 1.5 billion": ("qwen2.5-1.5b-80gb", "a100-80gb", (_PPO,)),
    "DPO, 1.5 billion": (
        "qwen2.5-1.5b-80gb", "a100-80gb", (f"training={{algorithm: dpo, {_TRAINING}}}",)
    ),
}  # fmt: skip
"""Name -> recipe, device and overrides."""


def table(rows: dict[str, Any]) -> list[str]:
    """Lines of Markdown: plan divided by rehearsal, and the largest rehearsed peak in GiB."""
    heads = ("recipe", *PHASES, "GiB rehearsed")
    lines = [f"| {' | '.join(heads)} |", "|---|" + "--:|" * (len(heads) - 1)]
    for name in CASES:
        phases = rows[name]["phases"] if name in rows else {}
        cells = [
            f"{phases[phase]['planned'] / phases[phase]['rehearsed']:.3f}"
            if phase in phases
            else ""
            for phase in PHASES
        ]
        peak = max((own["rehearsed"] for own in phases.values()), default=0.0) / 2**30
        lines.append(f"| {' | '.join((name, *cells, f'{peak:.1f}'))} |")
    return lines


def main(argv: list[str] | None = None) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="all if absent")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    rows = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    for name in options.cases or CASES:
        rows[name] = rehearsed(*(CASES[name][0], CASES[name][2], CASES[name][1]))
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {rows[name]['seconds']:.0f} s", file=sys.stderr, flush=True)
    lines = table(rows)
    print("\n".join(lines))
    if options.out == RESULTS:
        before, mark, _ = PAGE.read_text("utf-8").partition("| recipe |")
        if mark:
            PAGE.write_text(before + "\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
