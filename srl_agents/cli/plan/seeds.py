"""`srl plan seeds`: the classical memory budgets of RLHF, corrected."""

from __future__ import annotations

from dataclasses import asdict

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions
from srl_agents.memory import seed_budgets
from srl_agents.records import plain_json

DESCRIPTION = """Print well-known memory budgets of RLHF beside the planner's numbers, and why they differ.

Example:
  srl plan seeds
"""


def main(argv: list[str]) -> int:
    """Run the command; see `srl plan seeds --help`."""
    options = read_options(
        JSONOptions, command="srl plan seeds", description=DESCRIPTION, argv=argv
    )
    items = seed_budgets.items()
    if options.json:
        print(plain_json([asdict(item) for item in items], indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"GB; {seed_budgets.TRAFFIC.source}")
    for name in ("budget", "what"):
        table.add_column(name)
    table.add_column("classical", justify="right")
    table.add_column("planned", justify="right")
    table.add_column("why")
    before = ""
    for item in items:
        if before and item.budget != before:
            table.add_section()
        classical = "-" if item.classical is None else f"{item.classical:g}"
        shown = "" if item.budget == before else item.budget
        table.add_row(shown, item.what, classical, f"{item.planned:.1f}", item.why)
        before = item.budget
    Console().print(table)
    return 0
