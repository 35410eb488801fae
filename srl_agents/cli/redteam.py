"""`srl redteam [ENV ...]`: attack environments and rewards as a policy under training would."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import (
    JSONOptions,
    RandomOptions,
    ResultOptions,
    SearchBudgetOptions,
    meaning,
)
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError, file_fault, nearest
from srl_envs.redteam import campaign, published, table
from srl_envs.redteam.findings import Finding, Report, load_case, save_case

DESCRIPTION = """Attack environments and rewards as a policy under training would.

Policies that do not do the task (constants, copies of the prompt, babble, codes without meaning, hostile
programs, forged answers) and programs that read numbers of the prompt are tried and mutated under a
budget. Every verdict is compared with an oracle that does not share its code. A target is an environment,
or one of: answers, formats, programs.

--out DIR gets report.json, hackability.md and a case per finding.

The exit code is 0 without a finding, 1 with findings or where a probe could not be run, and 2 where you
have something to fix.

Examples:
  srl redteam commons-v1
  srl redteam all --budget-s 1800 --out attack
  srl redteam all --budget-s 1800 --publish
  srl redteam answers formats --json
  srl redteam nim-v0 --save tests/redteam/cases
  srl redteam all --suite ../an-older-checkout
  srl redteam --replay tests/redteam/cases
"""

ALL = "all"
"""Word for every target."""
FOUND = 1
"""Exit code where something was found, or a probe could not be run."""


@dataclass(frozen=True)
@meaning(out="Write the reports to this folder; if absent, they are only printed.")
class RedteamOptions(SearchBudgetOptions, RandomOptions, ResultOptions, JSONOptions):
    """Targets to attack, budget and outputs."""

    targets: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[ENV ...]")
    ] = ()
    """Ids of environments, or answers, formats, programs; board, the intake of leaderboards with forged
    bundles; or all, every environment and every reward."""
    jobs: int = 1
    """Attacks at the same time; the budget is for all of them together."""
    save: Path | None = None
    """Folder in which every finding becomes a regression case."""
    publish: bool = False
    """Show this run on the environments' pages and on boards in place of the last one."""
    replay: Path | None = None
    """Check the saved cases of this folder again instead of attacking."""
    suite: Path | None = None
    """Attack the srl_envs of another checkout; its folder."""

    def __post_init__(self) -> None:
        SearchBudgetOptions.__post_init__(self)
        if self.jobs < 1:
            raise ConfigError(f"jobs={self.jobs}: give 1 or more.")
        if self.seed < 0:
            raise ConfigError(f"seed={self.seed}: give a whole number from 0 on.")
        if not (self.targets or self.replay):
            raise ConfigError(
                "nothing to attack: name environments, `all` or `board`, or give --replay."
            )
        if self.publish and self.suite is not None:
            raise ConfigError(
                "--publish is for this suite; give another checkout's reports a folder with --out."
            )


def main(argv: list[str]) -> int:
    """Run the command; see `srl redteam --help`."""
    options = read_options(
        RedteamOptions, command="srl redteam", description=DESCRIPTION, argv=argv
    )
    if options.replay is not None:
        return replay(options.replay, as_json=options.json)
    suite = campaign.find_suite(options.suite)
    known = campaign.list_targets(suite)
    targets = chosen_targets(options, known)
    for folder in (options.out, options.save):
        if folder is not None:
            make_folder(folder)
    reports = attack_with_progress(targets, suite, options)
    if options.out is not None:
        write_reports(options.out, reports, command_of(options))
    if options.publish:
        published.publish(reports, command_of(options), known, published.PATH)
    findings = [finding for report in reports for finding in report.findings]
    if options.save is not None:
        for finding in findings:
            save_case(finding, options.save)
    show(reports, as_json=options.json)
    return FOUND if findings or any(report.faults for report in reports) else 0


def chosen_targets(options: RedteamOptions, known: Sequence[str]) -> list[str]:
    """The targets that the options name.

    Raises:
        ConfigError: one of them is unknown; names the nearest.
    """
    for name in options.targets:
        if name not in (ALL, *known):
            raise ConfigError(
                f"no target {name!r}.{nearest(name, known)} `srl envs` lists the environments."
            )
    return [*known] if ALL in options.targets else [*dict.fromkeys(options.targets)]


def attack_with_progress(
    targets: Sequence[str], suite: Path, options: RedteamOptions
) -> list[Report]:
    """All reports, with a progress bar on a terminal's standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("attack", total=len(targets))
        reports: list[Report] = []

        def say(name: str) -> None:
            bar.update(task, description=name)
            if not console.is_terminal:
                print(f"{len(reports)} of {len(targets)} done; next {name}", file=sys.stderr)

        for report in campaign.run(
            targets,
            suite=suite,
            seed=options.seed,
            seconds=options.budget_s,
            jobs=options.jobs,
            report=say,
        ):
            reports.append(report)
            bar.advance(task)
    return reports


def command_of(options: RedteamOptions) -> str:
    """The command that gives these reports again, without the places that it wrote to."""
    named = [ALL] if ALL in options.targets else list(options.targets)
    numbers = ["--budget-s", f"{options.budget_s:g}", "--seed", str(options.seed)]
    return shlex.join(["srl", "redteam", *named, *numbers])


def make_folder(folder: Path) -> None:
    """Make a folder for what is found, before the search begins.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write {file_fault(error, folder)}.") from None


def write_reports(folder: Path, reports: Sequence[Report], command: str) -> None:
    """``report.json``, the table as ``hackability.md``, and every case below ``cases``.

    Raises:
        ConfigError: the folder cannot be written.
    """
    try:
        data = {"command": command, "reports": [report.to_data() for report in reports]}
        (folder / "report.json").write_text(plain_json(data, indent=1) + "\n", encoding="utf-8")
        page = table.markdown(reports, f"Written by `{command}`; do not edit.")
        (folder / "hackability.md").write_text(page, encoding="utf-8")
        for report in reports:
            for finding in report.findings:
                save_case(finding, folder / "cases")
    except OSError as error:
        raise ConfigError(f"cannot write {file_fault(error, folder)}.") from None


def show(reports: Sequence[Report], *, as_json: bool) -> None:
    """The table and the findings on standard output."""
    if as_json:
        print(plain_json([report.to_data() for report in reports], indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(*table.COLUMNS[:-1], "findings", show_lines=True)
    shown.columns[0].no_wrap = True
    for report in reports:
        number = str(len(report.findings)) + (" (a probe failed)" if report.faults else "")
        shown.add_row(*table.row(report)[:-1], number)
    Console(width=None if sys.stdout.isatty() else 160).print(shown, highlight=False, markup=False)
    readers = [cells for report in reports for cells in table.reader_rows(report)]
    if readers:
        best = Table(*table.READER_COLUMNS, title="Readers of the prompt", show_lines=True)
        for cells in readers:
            best.add_row(*cells)
        Console(width=None if sys.stdout.isatty() else 160).print(
            best, highlight=False, markup=False
        )
    for report in reports:
        for finding in report.findings:
            print(_line(finding))
        for fault in report.faults:
            print(f"{report.target}: a probe could not be run: {fault}")


def _line(finding: Finding) -> str:
    detail = f" ({finding.detail})" if finding.detail else ""
    seen = " ".join(finding.observed.split())
    return f"{finding.target}: {finding.kind}: {seen}{detail}. Due: {finding.expected}"


def replay(folder: Path, *, as_json: bool) -> int:
    """Check saved cases again; 1 where one of them still shows its fault.

    Raises:
        ConfigError: the folder has no cases, or a file does not hold a case.
    """
    from srl_envs.redteam.attack import check_case

    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ConfigError(f"{folder} holds no cases (*.json).")
    rows = []
    for path in paths:
        try:
            case = load_case(path).case
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"{path} does not hold a case: {error}") from None
        found = check_case(case)
        rows.append({"case": path.name, "present": found is not None})
        if not as_json:
            print(f"{'still there' if found else 'gone':12} {path.name}")
    if as_json:
        print(plain_json(rows, indent=1))
    return FOUND if any(row["present"] for row in rows) else 0
