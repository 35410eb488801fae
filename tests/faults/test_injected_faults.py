"""Every injected fault is named, handled and ended as in the table; the page shows the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.injections import REFUSED, TABLE, Injection
from tests.faults.stage import Stage

pytestmark = pytest.mark.slow


FIRST = {one.fault: one for one in reversed(TABLE)}
"""One injection of each fault. Others of the same fault, with other handling, run nightly."""


@pytest.mark.parametrize(
    "injected",
    [
        pytest.param(
            one, id=one.how[:60], marks=() if one is FIRST[one.fault] else pytest.mark.nightly
        )
        for one in TABLE
    ],
)
def test_a_fault_is_named_and_handled(
    injected: Injection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    stage = Stage(tmp_path, monkeypatch)
    code = injected.run(stage)
    said = capfd.readouterr()
    assert code == injected.code, said.err + said.out
    assert stage.exported == injected.exported
    assert "Traceback" not in said.err
    if injected.handling == REFUSED or " " in injected.fault:
        assert injected.fault in said.err
        lines = [line for line in said.err.splitlines() if "plan" not in line.partition(":")[0]]
        assert len(lines) == 1
        return
    events = [(event["fault"], event["policy"]) for event in stage.events()]
    assert (injected.fault, injected.handling) in events or not injected.fault, events
    if code == 3:
        assert injected.fault in said.err
        assert "Likely cause" in said.err
