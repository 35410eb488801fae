"""The last published attack, for the environments' pages and the boards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from srl_envs.errors import ConfigError, file_fault
from srl_envs.redteam import table
from srl_envs.redteam.findings import Report

PATH = Path(__file__).with_name("published.json")
"""Every target's report, without the cases, and the command that gave it."""


def publish(
    reports: Sequence[Report], command: str, known: Sequence[str], path: Path = PATH
) -> None:
    """Write these reports over those of the same targets.

    Args:
        reports: of an attack on this suite.
        command: that gives them again.
        known: all targets; reports of others are dropped.
        path: of the file.

    Raises:
        ConfigError: it cannot be written.
    """
    entries = {report.target: (report, command) for report in reports}
    entries = {**_read(path), **entries}
    data = {
        target: {"command": by, "report": _without_cases(report).to_data()}
        for target in known if target in entries
        for report, by in (entries[target],)
    }  # fmt: skip
    try:
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {file_fault(error, path)}.") from None


def published(path: Path = PATH) -> dict[str, Report]:
    """Target -> its report; empty where nothing was published."""
    return {target: report for target, (report, _) in _read(path).items()}


def page(path: Path = PATH) -> str:
    """All reports as a page of the documentation."""
    entries = _read(path)
    by_command: dict[str, list[str]] = {}
    for target, (_, command) in entries.items():
        by_command.setdefault(command, []).append(target)
    most = max(by_command, key=lambda command: len(by_command[command]), default="srl redteam")
    others = "".join(
        f"; {', '.join(targets)} by `{command}`"
        for command, targets in by_command.items() if command != most
    )  # fmt: skip
    origin = f"Written by `{most} --publish`{others}; do not edit."
    return table.markdown([report for report, _ in entries.values()], origin)


def _read(path: Path) -> dict[str, tuple[Report, str]]:
    if not path.is_file():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return {
        target: (Report.from_data(entry["report"]), str(entry["command"]))
        for target, entry in data.items()
    }


def _without_cases(report: Report) -> Report:
    """Cases hold whole positions; `srl redteam --save` keeps them."""
    findings = [replace(finding, case={}) for finding in report.findings]
    return replace(report, findings=findings)
