"""The model of many workers agrees with sums done by hand where there is one thing to wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.league.scaling import DESIGNS, Design, League, Rates, main

FREE = Rates(
    match_s=1.0,
    learn_s=0.0,
    lease_s=0.0,
    transaction_s=0.0,
    row_s=0.0,
    buffer_s=0.0,
    link_bytes_per_s=1.0,
    version_bytes=0.0,
    matches=4,
    sigma=0.0,
    round_trip_s=0.0,
)
PLAIN = Design(name="plain")


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_free_leagues_let_everybody_play_all_the_time(design: Design) -> None:
    outcome = League(replace(FREE, matches=8), design, workers=5, updates=3).run()
    assert outcome.playing == pytest.approx(1.0)
    assert outcome.matches_per_s == pytest.approx(5.0)


def test_each_wait_is_what_it_costs() -> None:
    learning = League(replace(FREE, learn_s=2.0), PLAIN, workers=3, updates=2).run()
    assert learning.waits["learning"] == pytest.approx(2 / 10)  # once, between two updates of 4 s
    weights = League(replace(FREE, version_bytes=0.5), PLAIN, workers=4, updates=2).run()
    assert weights.waits["weights"] == pytest.approx(2 / 10)  # a copy each: 4 * 0.5 s
    hosts = Design(name="hosts", hosts_of=4, relayed=True)
    shared = League(replace(FREE, version_bytes=0.5), hosts, workers=4, updates=2).run()
    assert shared.waits["weights"] == pytest.approx(0.5 / 8.5)
    store = League(replace(FREE, transaction_s=0.25), PLAIN, workers=1, updates=1).run()
    assert store.waits["store"] == pytest.approx(0.25 / 1.25)
    league = League(replace(FREE, lease_s=1.0), PLAIN, workers=1, updates=1).run()
    assert league.waits["league"] == pytest.approx(0.5)
    ahead = Design(name="ahead", ahead=1)
    hidden = League(replace(FREE, learn_s=2.0), ahead, workers=3, updates=3).run()
    assert hidden.waits["learning"] == 0.0
    alone = Design(name="alone", trainers=2)
    shared = League(replace(FREE, learn_s=2.0), alone, workers=3, updates=2).run()
    assert shared.waits["learning"] == pytest.approx(3 / 11)  # rows of three, shared by two
    buffer = League(replace(FREE, buffer_s=0.5), PLAIN, workers=4, updates=2).run()
    assert buffer.waits["buffer"] == pytest.approx(
        5 / 18
    )  # four at a time take 2 s, and come every 1 s
    assert buffer.busy["buffer"] == pytest.approx(16 / 18)


@pytest.mark.parametrize(
    "options",
    [
        ["--match-s", "0"],
        ["--match-s", "-1"],
        ["--match-s", "nan"],
        ["--learn-s", "inf"],
        ["--sigma", "-1"],
        ["--workers", "0"],
        ["--json", "/no/such/folder.json"],
    ],
)
def test_impossible_rates_are_refused_before_anything_is_measured(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["scaling", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "give" in (printed := capsys.readouterr().err) or "no such folder" in printed


def test_the_wait_for_the_slowest_grows_with_the_tail() -> None:
    waits = [
        League(replace(FREE, sigma=sigma), PLAIN, workers=16, updates=5).run().waits["stragglers"]
        for sigma in (0.0, 0.5, 1.0)
    ]
    assert waits[0] == 0.0
    assert 0.02 < waits[1] < waits[2]
