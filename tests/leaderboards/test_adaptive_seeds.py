"""Seeds that are added until agents are apart: the looks, the comparison, and runs that stop and go on."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.league.adaptive_seeds import expected, points, simulate
from leaderboards.bundles.adaptive_seeds import APART, comparisons, stops
from leaderboards.bundles.run import JOURNAL, read_header, seeds_of
from leaderboards.bundles.submission import open_bundle
from leaderboards.cli.shared.options import EntrantOptions
from leaderboards.protocol import load_protocol, schedule
from srl_agents.league.ratings.intervals import compared, looks
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import ConfigError
from tests.chat_server import ChatServer, chat_server
from tests.leaderboards.command import main

KUHN = load_protocol("kuhn_poker-v0")


def results(gap: dict[str, float], seeds: int) -> list[tuple[MatchSpec, MatchResult]]:
    """A run in which each entrant earns the same in all matches, and twice as much on odd seeds."""
    found = []
    for spec in schedule(KUHN, list(gap), seeds):
        (name, *_) = [*({*spec.seats} & gap.keys()), ""]
        outcomes = [0.0] * len(spec.seats)
        if name:
            outcomes[spec.seats.index(name)] = gap[name] * (1 + spec.number % 2)
        result = MatchResult(
            match_id=spec.match_id,
            outcomes=tuple(outcomes),
            rewards=tuple(outcomes),
            termination="ok",
        )
        found.append((spec, result))
    return found


def test_looks_double_and_end_with_all_seeds() -> None:
    assert looks(64) == (8, 16, 32, 64)
    assert looks(100) == (8, 16, 32, 64, 100)
    assert looks(8) == (8,)
    assert looks(3) == (3,)


def test_a_comparison_is_the_interval_that_a_hand_computes() -> None:
    gap = np.array([0.0, 0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.5])
    found = compared("a", "b", gap, 5)
    # t for 7 degrees at 1 - 0.05 / 10, from a table: 3.4995; the error is sqrt(8 / 7) / 4 / sqrt(8)
    assert found.mean == 0.25
    assert found.high - found.mean == pytest.approx(3.4995 * math.sqrt(1 / 7) / 4, abs=1e-4)
    assert not found.apart
    alike = compared("a", "b", np.zeros(8), 1)
    assert alike.high == pytest.approx(2.3646 * 0.5 / 8, abs=1e-4)  # equal values prove little
    assert compared("a", "b", np.ones(1), 1).high == math.inf


def test_entrants_are_compared_on_their_matches_with_references_alone() -> None:
    matches = results({"a": 0.5, "b": -0.5}, 8)
    (found,) = comparisons(KUHN, ["b", "a"], matches, 8, 1)
    assert (found.one, found.other, found.seeds) == ("a", "b", 8)
    assert found.mean == pytest.approx(1.5)
    assert found.apart
    (fewer,) = comparisons(KUHN, ["a", "b"], matches, 3, 1)
    assert fewer.mean == pytest.approx((1 + 2 + 1) / 3)


def test_a_run_stops_at_the_first_look_at_which_all_are_apart() -> None:
    clear = results({"a": 0.5, "b": -0.5, "c": 0.0}, 64)
    assert stops(KUHN, ["a", "b", "c"], clear, 64) == 8
    alike = results({"a": 0.5, "b": -0.5, "c": -0.5}, 64)
    assert stops(KUHN, ["a", "b", "c"], alike, 64) == 64
    assert stops(KUHN, ["a", "b", "c"], [m for m in alike if m[0].number < 8], 64) == 16
    assert stops(KUHN, ["a", "b"], [], 64) == 8


def test_the_interval_that_decides_keeps_its_coverage_and_ordinary_ones_do_not() -> None:
    rows = [simulate(gap, 600, 64, 0) for gap in (0.0, 0.3, 1.0)]
    assert min(row["rule"] for row in rows) > 0.94
    assert rows[1]["difference_ordinary"] < 0.94
    assert rows[2]["apart"] > 0.95
    assert rows[2]["seeds"] < 40 < rows[0]["seeds"]


def test_the_simulation_knows_the_truth() -> None:
    rng = np.random.default_rng(0)
    assert points(0.4, 40, 500, rng).mean() == pytest.approx(expected(0.4), abs=0.005)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, (None, "")), ("12", (12, "")), ("apart", (None, APART)), ("apart:32", (32, APART))],
)
def test_seeds_are_a_number_or_apart(text: str | None, wanted: tuple[int | None, str]) -> None:
    assert EntrantOptions(seeds=text).counted() == wanted


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1:apart", "apart:", "apart:x", "12:", ":12", "1.5", "9" * 5000]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give a number, apart, or apart:N"):
        EntrantOptions(seeds=text).counted()


# --- runs --------------------------------------------------------------------------------------


def reply(request: dict[str, Any]) -> str:
    """One model plays by the rules, the others write nothing that can be played."""
    return "<action>check</action>" if request["model"] == "fair" else "no"


def arguments(out: Path, server: ChatServer, seeds: str, *models: str) -> list[str]:
    agents = [f"--agent={model}=openai:{model}@{server.url}" for model in models]
    return [
        "run",
        KUHN.name,
        "--seeds",
        seeds,
        "--out",
        str(out),
        "--unregistered",
        "--json",
        *agents,
    ]


MODELS = ("fair", "mute", "still")


@pytest.mark.slow
def test_a_run_stops_when_its_agents_are_apart_and_its_bundle_has_those_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chat_server(reply=reply, models=MODELS) as server:
        command = arguments(tmp_path / "run", server, APART, "fair", "mute")
        assert main(command) == 0
        (entry,) = json.loads(capsys.readouterr().out)
        header = read_header(tmp_path / "run" / KUHN.name)
        (comparison,) = entry["apart"]
        assert comparison["low"] > 0
        assert seeds_of(header) == comparison["seeds"] < KUHN.seeds == header["seeds"]
        assert entry["matches"] == len(schedule(KUHN, ["fair", "mute"], seeds_of(header)))
        asked = len(server.requests)
        assert main(command) == 0
        assert json.loads(capsys.readouterr().out) == [{**entry, "played_before": entry["matches"]}]
        assert len(server.requests) == asked
        assert main(arguments(tmp_path / "run", server, "8", "fair", "mute")) == 2
    assert "--out" in capsys.readouterr().err
    assert main(["bundle", str(tmp_path / "run")]) == 0
    (folder,) = (tmp_path / "run/bundles" / KUHN.name).iterdir()
    assert open_bundle(folder).seeds == comparison["seeds"]


@pytest.mark.slow
def test_a_run_that_was_killed_asks_no_reply_twice_and_stops_at_the_same_look(
    tmp_path: Path,
) -> None:
    """Two agents that are never apart: both looks are played, whenever the process ends."""
    out = tmp_path / "killed"
    with chat_server(reply=reply, models=MODELS, delay_s=0.01) as server:
        command = arguments(out, server, "apart:9", "mute", "still")
        code = "import sys; from srl_agents.cli.main import main; sys.exit(main())"
        for kept in (40, 120):
            with subprocess.Popen(
                [sys.executable, "-c", code, "leaderboard", *command],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            ) as run:  # fmt: skip
                while replies(out) < kept and run.poll() is None:
                    time.sleep(0.02)
                os.kill(run.pid, signal.SIGKILL)
        assert main(command) == 0
        header, played = read_header(out / KUHN.name), (out / KUHN.name / JOURNAL).read_text()
        assert seeds_of(header) == 9
        assert len(played.splitlines()) == len(schedule(KUHN, ["mute", "still"], 9))
        # a reply that was on its way at a kill is the only one that may come twice
        assert len(server.requests) - replies(out) <= 2 * 64
        assert main(arguments(tmp_path / "whole", server, "apart:9", "mute", "still")) == 0
    whole = (tmp_path / "whole" / KUHN.name / JOURNAL).read_text()
    assert names(played) == names(whole)


def replies(out: Path) -> int:
    path = out / KUHN.name / "replies.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def names(journal: str) -> list[str]:
    return sorted(json.loads(line)[0] for line in journal.splitlines())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--agent=a=openai:m@http://127.0.0.1:9/v1"], "is for --unregistered runs"),
        (["--unregistered"], "give two or more"),
    ],
)
def test_what_cannot_be_compared_is_said_before_the_first_match(
    tmp_path: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "nim-v0", "--seeds", APART, "--out", str(tmp_path), *more]) == 2
    assert words in capsys.readouterr().err


def test_a_registration_names_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["register", "nim-v0", "--agent", "tiny", "--seeds", APART, "--out", str(tmp_path)]
    assert main(command) == 2
    assert "a ticket fixes the number of seeds" in capsys.readouterr().err
