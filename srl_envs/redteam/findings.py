"""Findings of the red team: plain data that can be saved and checked again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Case = dict[str, Any]
"""All that a check needs to be made again: ``probe`` (its name), ``target`` and the probe's own keys."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fault: what was seen, what was due, and the case that shows it."""

    kind: str
    """What sort of fault; one of the labels in `docs/design/redteam.md`."""
    target: str
    """An environment's id, or the name of a scorer."""
    observed: str
    expected: str
    case: Case
    detail: str = ""
    """One line more for the reader, such as the intervals."""

    @property
    def name(self) -> str:
        """File name of the case: kind, target and a digest of the case."""
        text = json.dumps(self.case, sort_keys=True)
        return f"{self.kind}-{self.target.replace('/', '.')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(slots=True)
class Report:
    """Result of the attack on one target."""

    target: str
    findings: list[Finding] = field(default_factory=list)
    measures: dict[str, Any] = field(default_factory=dict)
    """Numbers of the hackability table, by column."""
    spent_s: float = 0.0
    """Seconds of processor time."""
    faults: list[str] = field(default_factory=list)
    """Probes that could not be run, and why; no verdict on the target."""

    def to_data(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Report:
        """The inverse of `to_data`."""
        findings = [Finding(**finding) for finding in data["findings"]]
        return cls(**{**data, "findings": findings})


def save_case(finding: Finding, folder: Path) -> Path:
    """Write a finding as a regression case; a test of the suite's own checks it from then on."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{finding.name}.json"
    path.write_text(json.dumps(asdict(finding), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def load_case(path: Path) -> Finding:
    """Read what `save_case` wrote."""
    return Finding(**json.loads(path.read_text(encoding="utf-8")))
