"""The full view of a run fits its terminal, shows every part, and leaves a terminal as it was."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from srl_agents.metrics import FullView, Record
from srl_agents.metrics.curves import Curve, chart
from srl_agents.metrics.meetings import Meeting

SHOW_CURSOR = "\x1b[?25h"
MET = Meeting(names=("alice@5", "bot:middle"), matches=16, outcomes=(0.25, -0.25), void=1)


def record(update: int, learners: int = 2) -> Record:
    run = {
        "tokens_per_s": 90.0 + update,
        "memory/allocated_gb": 1.5,
        "phase/play": 0.7,
        "phase/update": 0.2,
    }
    values = {
        f"learner{n}": {
            "reward": update / 10 - n / 20, "entropy": 1 / update, "invalid_share": 1 / update, "kl": 0.0,
        }
        for n in range(learners)
    }  # fmt: skip
    return Record(update=update, updates=30, run=run, learners=values)


def screen(width: int, height: int, updates: int = 6, learners: int = 2) -> list[str]:
    """What the terminal shows after some updates."""
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None
    )
    view = FullView("my run: nim-v0 with tiny", 30, console)
    for update in range(1, updates + 1):
        view.write(record(update, learners))
    view.met([MET])
    view.phase("update 7: playing", 16)
    with console.capture() as capture:
        console.print(view._render())
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("height", [24, 44])
def test_every_part_fits_the_terminal(width: int, height: int) -> None:
    lines = screen(width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) < height
    shown = "\n".join(lines)
    for part in (
        "my run", "6/30", "update 7: playing", "reward per episode", "learner1", "play", "70%",
        "allocated", "1.50 GB", "tokens/s", "last matches", "alice@5 : bot:middle",
        "+0.25  -0.25", "1 void",
    ):  # fmt: skip
        assert part in shown, part


def test_a_higher_terminal_shows_more_curves_and_a_small_one_keeps_the_numbers() -> None:
    assert "entropy, nats" in "\n".join(screen(80, 44))
    assert "entropy, nats" not in "\n".join(screen(80, 24))
    small = "\n".join(screen(60, 14))
    assert "reward per episode" not in small
    assert "learner0" in small
    assert "and 4 more" in "\n".join(screen(100, 44, learners=12))


def test_a_constant_series_is_named_in_one_line_and_not_drawn() -> None:
    lines = screen(80, 44)
    assert [line.strip() for line in lines if "KL from the reference" in line] == [
        "constant: KL from the reference, nats 0.000"
    ]
    assert "constant" not in "\n".join(screen(80, 44, updates=1))


def test_nothing_but_the_progress_is_shown_before_the_first_update() -> None:
    assert len(screen(80, 24, updates=0)) == 3


def test_a_continued_run_has_its_earlier_curves_and_an_update_that_came_again_once() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    earlier = [record(update).as_json() for update in range(1, 6)]
    view = FullView("run", 30, console, history=earlier)
    view.write(record(4))
    assert [row["update"] for row in view._history] == [1, 2, 3, 4]


def test_without_a_terminal_it_is_lines_of_text() -> None:
    out = io.StringIO()
    with FullView("run", 30, Console(file=out, width=80)) as view:
        view.write(record(1, learners=1))
        view.met([MET])
    (line,) = out.getvalue().splitlines()
    assert "\x1b" not in line
    assert line.startswith("update 1/30 | learner0: reward +0.100")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_end_of_any_kind_gives_the_cursor_back_below_the_last_view(
    error: type[BaseException],
) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24)

    def run() -> None:
        with FullView("run", 30, console) as view:
            view.write(record(1))
            raise error

    with pytest.raises(error):
        run()
    assert "tokens/s" in out.getvalue()
    assert out.getvalue().rindex(SHOW_CURSOR) > out.getvalue().rindex("\x1b[?25l")


def test_what_did_not_change_is_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    view = FullView("run", 30, console)
    view.write(record(1))
    laid_out = []

    def counted(title: str, curves: Sequence[Curve], *, width: int, height: int) -> Text:
        laid_out.append(title)
        return chart(title, curves, width=width, height=height)

    monkeypatch.setattr("srl_agents.metrics.full_view.chart", counted)
    for _ in range(5):
        console.print(view._render())
    once = len(laid_out)
    view.write(record(2))
    console.print(view._render())
    assert once == len({"reward", "invalid_share"})
    assert len(laid_out) == 2 * once


def test_a_curve_rises_from_corner_to_corner() -> None:
    title, *rows, below = chart(
        "up", [Curve("cyan", [1, 9], [0.0, 8.0])], width=28, height=4
    ).plain.split("\n")
    assert title == "up"
    assert rows[0].split()[0] == "8.000"
    assert rows[-1].split()[0] == "0.000"
    assert below.split() == ["1", "9"]
    starts = [len(row) - len(row[8:].lstrip()) for row in rows]
    assert starts == sorted(starts, reverse=True)
    assert len(set(starts)) == 4


def test_curves_of_one_point_of_one_value_and_with_nan_are_drawn() -> None:
    for values in ([0.5], [0.5, 0.5, 0.5], [0.1, float("nan"), 0.3], [float("nan")]):
        drawn = chart("c", [Curve("cyan", range(len(values)), values)], width=30, height=3).plain
        assert len(drawn.split("\n")) == 5
        assert any(0x2800 < ord(sign) < 0x2900 for sign in drawn) == (values[0] == values[0])


def test_a_long_run_is_drawn_by_means() -> None:
    values = [float(n % 2) for n in range(10_000)]
    drawn = chart("c", [Curve("cyan", range(10_000), values)], width=30, height=3).plain
    assert drawn.split("\n")[1].split()[0] == "1.000"
    assert "9999" in drawn.split("\n")[-1]


def test_the_command_takes_the_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from srl_agents.cli.main import main

    assert main(["train", "quickstart-tiny", "--view", "ful"]) == 2
    assert "full" in capsys.readouterr().err
