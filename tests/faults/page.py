"""`python -m tests.faults.page`: the reference of faults, from the kinds and the injections."""

from __future__ import annotations

from pathlib import Path

from srl_agents.recipes.sections.fault_kinds import FAULTS
from tests.faults.injections import TABLE

PAGE = Path(__file__).parents[2] / "docs/reference/faults.md"
COMMAND = "python -m tests.faults.page"


def page() -> str:
    """In Markdown."""
    lines = [
        "# Faults",
        "",
        f"Written by `{COMMAND}`; do not edit. What a run does when something goes wrong is set in its",
        "recipe's section [`survival`](settings.md#survivalsettings); how it works is in",
        "[the design](../design/survival.md). A fault is one line in the output, one in `RUN/faults.jsonl`",
        "and the metric `fault/NAME`.",
        "",
        "## Kinds",
        "",
        "| fault | when | likely cause | what helps | what is done | may be |",
        "|---|---|---|---|---|---|",
    ]
    for name, kind in FAULTS.items():
        others = (
            ", ".join(f"`{policy}`" for policy in kind.may if policy != kind.policy)
            or "nothing else"
        )
        lines.append(
            f"| `{name}` | {kind.what} | {kind.cause} | {kind.fix} | `{kind.policy}` | {others} |"
        )
    lines += [
        "",
        f"## The {len(TABLE)} that are injected",
        "",
        "Each is put into a real run by `tests/faults/injections.py`, and the run must end so. Exit codes: 0",
        "done, 1 nothing was learned, 2 a mistake that the user can mend, 3 stopped by a fault.",
        "",
        "| what is broken | fault or message | handling | exit code | adapters exported |",
        "|---|---|---|--:|---|",
    ]
    for one in TABLE:
        exported = "yes" if one.exported else "no"
        lines.append(
            f"| {one.how} | {f'`{one.fault}`' if one.fault else 'none'} | {one.handling} | {one.code} | "
            f"{exported} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
