"""Records go to a file that survives crashes, to TensorBoard, and to the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from srl_agents.metrics import MEANINGS, ConsoleView, Record
from srl_agents.metrics.console import sparkline
from srl_agents.metrics.sinks import read_lines


def record(update: int, reward: float = 0.5) -> Record:
    learner = {"reward": reward, "kl": 0.01, "score_bot:random": 0.75}
    return Record(
        update=update, updates=9, run={"tokens_per_s": 100.0}, learners={"alice": learner}
    )


@pytest.mark.parametrize(
    "line",
    [
        "[" * 10**5,
        '{"update": 1, "run": []}',
        '{"update": 1, "run": {"train_s": "soon"}}',
        '{"update": 1, "learners": ["alice"]}',
        '{"update": 1, "learners": {"alice": {"reward": "much"}}}',
    ],
)
def test_a_line_that_holds_something_else_than_numbers_is_damaged(
    line: str, tmp_path: Path
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{line}\n")
    with pytest.warns(UserWarning, match="left out line 1"):
        assert read_lines(path) == []


def test_without_a_terminal_each_update_is_one_line() -> None:
    out = io.StringIO()
    with ConsoleView("title", 9, Console(file=out, width=200)) as view:
        view.phase("playing", 3)
        view.advance()
        view.write(record(4))
    lines = out.getvalue().splitlines()
    assert len(lines) == 1
    for part in ("update 4/9", "alice", "+0.500", "vs random 75%", "100 tokens/s"):
        assert part in lines[0]


def test_without_a_terminal_no_line_is_longer_than_100_characters() -> None:
    values = dict.fromkeys(("reward", "format", "kl", "entropy", "invalid_share"), 0.5)
    values |= {"grad_norm": 1.5, "score_start": 0.5, "score_bot:random": 0.75}
    run = {"tokens_per_s": 100.0, "overlap_s": 1.0, "wait_s": 2.0, "batch_rows": 3.0}
    out = io.StringIO()
    with ConsoleView("title", 9000, Console(file=out, width=80)) as view:
        learners = dict.fromkeys(("alice", "bob"), values)
        view.write(Record(update=4000, updates=9000, run=run, learners=learners))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("update 4000/9000 | alice: reward +0.500,")
    assert [line for line in lines if line.startswith("  bob: reward +0.500,")]
    text = " ".join(line.strip() for line in lines)
    assert text.count("vs random 75%") == len(learners)
    assert "training waited 2.0 s" in text


def test_without_a_terminal_a_long_phase_says_every_half_minute_how_far_it_is() -> None:
    out, now = io.StringIO(), [0.0]
    with ConsoleView("t", 9, Console(file=out, width=200), clock=lambda: now[0]) as view:
        view.phase("final round robin", 600)
        for _ in range(5):
            now[0] += 10.0
            view.advance(20)
        assert out.getvalue() == "final round robin: 60 of 600\n"
        now[0] += 10.0
        view.advance(20)
        view.write(record(4))
        now[0] += 20.0
        view.advance(20)
    lines = out.getvalue().splitlines()
    assert lines[1] == "final round robin: 120 of 600"
    assert [line.startswith("update 4/9") for line in lines] == [False, False, True]


def test_the_live_view_shows_every_learner_and_keeps_old_scores() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=140)
    with ConsoleView("my run", 9, console) as view:
        view.write(record(1))
        later = Record(update=2, updates=9, run={}, learners={"alice": {"reward": 0.9}})
        view.write(later)
    shown = out.getvalue()
    for part in ("my run", "alice", "+0.900", "random 75%", "2/9"):
        assert part in shown


def test_both_views_say_what_credit_sees_and_of_what_it_consists() -> None:
    values = {"reward": 0.5, "reward/std": 0.25, "reward/outcome": 0.5, "reward/credited": 0.375}
    rewarded = Record(update=1, updates=9, run={}, learners={"alice": values, "bob": {}})
    for terminal in (False, True):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=240)
        with ConsoleView("run", 9, console) as view:
            view.write(rewarded)
        assert "credited +0.375 (outcome +0.500)" in out.getvalue()
    assert "credited" not in _shown(record(1))


def _shown(plain: Record) -> str:
    out = io.StringIO()
    with ConsoleView("run", 9, Console(file=out, width=240)) as view:
        view.write(plain)
    return out.getvalue()


def test_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([0.0, 1.0]) == "▁█"
    assert sparkline([2.0, 2.0]) == "▁▁"


def test_every_meaning_is_said() -> None:
    assert all(MEANINGS.values())
