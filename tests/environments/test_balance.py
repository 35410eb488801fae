"""The balance report: its sums, its verdict, and that the published page is up to date."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import srl_envs
from benchmarks.environments import balance, balance_page, bot_matches, lookahead
from benchmarks.environments.bot_matches import Balance, Estimate, Games, estimate
from srl_envs.errors import SandboxError
from srl_envs.redteam.findings import Report


def test_an_interval_is_students() -> None:
    """1 to 6: mean 3.5, variance 3.5, t(5) = 2.571; the half-width is 2.571 * sqrt(3.5 / 6)."""
    found = estimate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert found.mean == 3.5
    assert found.clusters == 6
    assert found.half == pytest.approx(2.571 * math.sqrt(3.5 / 6), rel=0.01)


@pytest.mark.parametrize(("freedom", "quantile"), [(5, 2.571), (11, 2.201), (59, 2.001)])
def test_quantiles_agree_with_the_table(freedom: int, quantile: float) -> None:
    assert bot_matches._student(freedom) == pytest.approx(quantile, rel=0.01)


def test_one_value_says_nothing_of_its_error() -> None:
    assert estimate([0.5]).half == math.inf
    assert estimate([]).half == math.inf


def found(separation: Estimate, among_all: Estimate) -> Balance:
    even, more = (Estimate(mean=mean, half=0.1, clusters=9) for mean in (0.0, 0.2))
    return Balance(
        env="nim-v0", mode="competitive", seats=2, bots=["random", "strong"], seeds=9, games=36,
        void=0, payoffs={row: {"random": even, "strong": even} for row in ("random", "strong")},
        separation=separation, among_all=among_all, ladder={"random": even, "strong": more},
        beside_strong={"random": even}, teams={}, look_ahead=more,
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
        raise SandboxError("no sandbox")

    monkeypatch.setattr(srl_envs, "play", fails)
    result = bot_matches.measure("nim-v0", 2)
    assert result.games == 0
    assert result.void > 0
    assert result.separation.clusters == 0
    assert not result.separated


@pytest.mark.slow
def test_a_weak_strong_bot_ends_the_program_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--json", str(tmp_path / "numbers.json"), "--report", str(tmp_path / "report.md")]
    assert balance.main(["nim-v0", "--quick", *files]) == 0
    real = bot_matches.separation
    monkeypatch.setattr(
        bot_matches, "separation", lambda games, seeds: replace(real(games, seeds), mean=-0.5)
    )
    assert balance.main(["nim-v0", "--quick", *files]) == 1
    assert "nim-v0: strong does not clearly beat random." in capsys.readouterr().err
    assert "**not apart**" in (tmp_path / "report.md").read_text()


def test_headroom_is_the_best_that_is_clearly_above_strong() -> None:
    some = Estimate(mean=0.5, half=0.1, clusters=9)
    b = found(some, some)
    attack = Report("nim-v0", measures={"responses": [
        {"thoughtless": "constant 1", "company": company, "gain": gain, "half": 0.1}
        for company, gain in (("random", 0.9), ("strong", 0.3), ("strong", 0.05))
    ]})  # fmt: skip
    row = balance_page._headroom(b, attack)
    assert (
        row == "+0.300 ± 0.100, `constant 1` beside strong"
    )  # beside random it leaves no headroom
    assert balance_page._headroom(b, None).endswith("look-ahead beside strong")
    assert balance_page._headroom(replace(b, look_ahead=None), None) == "none"
    hidden = replace(b, env="kuhn_poker-v0", mode="cooperative")  # it saw the cards
    assert balance_page._headroom(hidden, None) == "none (up to +1.000)"


@pytest.mark.parametrize("bot", ["strong", "greedy"])
def test_the_look_ahead_beats_a_bot_that_can_be_beaten(
    bot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No bot does better than nim's strong bot in its own games; greedy gives most of its games away."""
    real = srl_envs.make_bot
    monkeypatch.setattr(srl_envs, "make_bot", lambda env, _, seed: real(env, bot, seed=seed))
    games, seeds = Games(srl_envs.spec("nim-v0")), range(12)
    base = [games.outcomes(("strong", "strong"), seed) for seed in seeds]
    found = lookahead.gains("nim-v0", base.__getitem__, seeds, 60.0)
    games.env.close()
    assert len(found) == len(seeds)
    assert (sum(found) > 0.25 * len(seeds)) == (bot == "greedy")
    assert all(gain >= 0.0 for gain in found) or bot == "greedy"


def test_no_shipped_bot_earns_clearly_more_than_the_strong_one_in_any_game() -> None:
    """Over all company, each bot in turn."""
    games = json.loads(balance.RESULTS.read_text())["environments"].values()
    clearly = [
        (b.env, bot)
        for b in map(balance.loaded, games)
        for bot, found in b.ladder.items()
        if found.mean - found.half > b.ladder["strong"].mean + b.ladder["strong"].half
    ]
    assert clearly == []


def test_what_is_published_is_in_step() -> None:
    data = json.loads(balance.RESULTS.read_text())
    known = [balance.loaded(entry) for entry in data["environments"].values()]
    assert [asdict(b) for b in known] == list(data["environments"].values())
    assert {b.env for b in known} <= set(srl_envs.list_envs())
    assert [b.env for b in known if not b.separated] == []
    written = balance.REPORT.read_text()
    body = balance_page.report(known, "").split("\n", 4)[4]
    assert written.endswith(body), "run `python -m benchmarks.environments.balance --rewrite`"
