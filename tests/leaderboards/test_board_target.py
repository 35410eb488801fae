"""The forged bundles as a target of `srl redteam`."""

from __future__ import annotations

import pytest

from leaderboards.bundles.verify import Verdict
from leaderboards.redteam import board_target
from srl_envs.redteam.budget import Budget
from srl_envs.redteam.findings import Report


def test_no_forgery_is_taken_and_the_number_is_told() -> None:
    report = Report("board")
    board_target.probe(0, report, Budget(steps=12).whole())
    assert report.findings == []
    assert report.measures["verdicts"] == 12


def test_an_intake_that_believes_everything_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        board_target, "verify", lambda path, level: Verdict(str(path), level, reached=level)
    )
    report = Report("board")
    board_target.probe(0, report, Budget(steps=3).whole())
    assert {finding.kind for finding in report.findings} == {"forged_bundle_accepted"}
    assert board_target.check(report.findings[0].case) is not None
