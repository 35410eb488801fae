"""Each step of `make gpu` at small size on the CPU: it passes, and fails under a planted fault."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu import checks, cpu_and_card, whole_updates
from benchmarks.gpu.checks import STEPS

HERE = ("engine", "learner", "qwen2.5-7b in 4 bits")
"""Steps that run here; of the recipes one, as they differ in values only."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_a_step_passes_and_fails_under_its_fault(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_and_card, "SHAPE", {"hidden": 64, "layers": 2, "vocab": 320})
    assert STEPS[name].run("cpu", False)["passed"]
    assert not STEPS[name].run("cpu", True)["passed"]


def test_a_plan_below_or_far_above_what_was_measured_fails() -> None:
    def peaks(planned: float) -> dict[str, Any]:
        return {
            "train": {"planned": 1.0, "measured": 1.0},
            "card": {"planned": planned, "measured": 10.0},
        }

    assert whole_updates.within(peaks(10.5))
    assert not whole_updates.within(peaks(9.9))
    assert not whole_updates.within(peaks(11.1))


def test_a_step_that_hangs_is_ended_and_failed() -> None:
    row = checks.run_step("engine", "cpu", limit_s=0.05)
    assert row["result"] == "more than 0 s"
    assert not row["passed"]


def test_the_page_is_written_from_the_kept_results() -> None:
    import json

    assert checks.PAGE.read_text() == checks.page(json.loads(checks.RESULTS.read_text()))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["enginee"], "no step enginee"),
        (["--device", "cpu", "--record"], "the page is about cards"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        checks.main(arguments)
    assert said in capsys.readouterr().err
