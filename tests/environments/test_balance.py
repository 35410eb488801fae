"""The balance report: its sums, its verdict, and that what is published is in step."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import srl_envs
from benchmarks.environments import balance
from benchmarks.environments.balance import Balance, Estimate, Games, estimate


def test_an_interval_is_students() -> None:
    """1 to 6: mean 3.5, variance 3.5, t(5) = 2.571; the half-width is 2.571 * sqrt(3.5 / 6)."""
    found = estimate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert found.mean == 3.5
    assert found.clusters == 6
    assert found.half == pytest.approx(2.571 * math.sqrt(3.5 / 6), rel=0.01)


@pytest.mark.parametrize(("freedom", "quantile"), [(5, 2.571), (11, 2.201), (59, 2.001)])
def test_quantiles_agree_with_the_table(freedom: int, quantile: float) -> None:
    assert balance._student(freedom) == pytest.approx(quantile, rel=0.01)


def test_one_value_says_nothing_of_its_error() -> None:
    assert estimate([0.5]).half == math.inf
    assert estimate([]).half == math.inf


def found(separation: Estimate, among_all: Estimate) -> Balance:
    even = Estimate(mean=0.0, half=0.1, clusters=9)
    return Balance(
        env="nim-v0", mode="competitive", seats=2, bots=["random", "strong"], seeds=9, games=36,
        void=0, payoffs={"random": {"random": even}}, separation=separation, among_all=among_all,
        seat_gap=even, mover_gap=None, replies=4.0, prompt_chars=400.0, prompt_chars_max=480,
        reply_chars=20.0, refused=0.0, cpu_s=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("separation", "among_all", "verdict"),
    [
        ((0.3, 0.2), (0.1, 0.2), True),
        ((0.3, 0.3), (0.1, 0.2), False),  # the interval touches 0
        ((-0.3, 0.2), (0.1, 0.2), False),
        ((0.3, 0.2), (-0.1, 0.2), True),
        ((0.3, 0.2), (-0.3, 0.2), False),  # better together, at its own cost among others
    ],
)
def test_strong_must_clearly_beat_random(
    separation: tuple[float, float], among_all: tuple[float, float], verdict: bool
) -> None:
    first, second = (
        Estimate(mean=mean, half=half, clusters=9) for mean, half in (separation, among_all)
    )
    assert found(first, second).separated is verdict


def test_a_bot_is_paid_for_every_seat_and_each_game_is_played_once() -> None:
    """In nim, strong beats random from every opening that we count, so each cell is exact."""
    games = Games(srl_envs.spec("nim-v0"))
    mine = games.one_among("strong", "random", 0)
    theirs = games.one_among("random", "strong", 0)
    assert mine is not None
    assert theirs == -mine
    assert len(games.played) == 2
    assert games.one_among("random", "random", 0) == 0.0  # what one wins the other loses
    games.env.close()


def test_a_void_game_counts_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise balance.SandboxError("no sandbox")

    monkeypatch.setattr(srl_envs, "play", fails)
    result = balance.measure("nim-v0", 2)
    assert result.games == 0
    assert result.void > 0
    assert result.separation.clusters == 0
    assert not result.separated


def test_a_weak_strong_bot_ends_the_program_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--json", str(tmp_path / "numbers.json"), "--report", str(tmp_path / "report.md")]
    assert balance.main(["nim-v0", "--seeds", "3", *files]) == 0
    real = balance.separation
    monkeypatch.setattr(
        balance, "separation", lambda games, seeds: replace(real(games, seeds), mean=-0.5)
    )
    assert balance.main(["nim-v0", "--seeds", "3", *files]) == 1
    assert "nim-v0: strong does not clearly beat random." in capsys.readouterr().err
    assert "**not apart**" in (tmp_path / "report.md").read_text()


def test_what_is_published_is_in_step() -> None:
    data = json.loads(balance.RESULTS.read_text())
    known = [balance.loaded(entry) for entry in data["environments"].values()]
    assert [asdict(b) for b in known] == list(data["environments"].values())
    assert {b.env for b in known} <= set(srl_envs.list_envs())
    assert [b.env for b in known if not b.separated] == []
    written = balance.REPORT.read_text()
    body = balance.report(known, "").split("\n", 4)[4]
    assert written.endswith(body), "run `python -m benchmarks.environments.balance` anew"
