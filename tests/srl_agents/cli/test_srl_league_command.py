"""`srl league`: run a population, look at it, continue it, take it elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.core import Split
from srl_envs.errors import SandboxError, StoreError

RECIPE = """
name: bots
env: nim-v0
agents:
  - {agent: random, role: anchor}
  - {agent: middle}
  - {agent: strong, role: main}
  - {agent: held_out, role: heldout}
matches: 96
batch: 8
matchmaking: {block: 32}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "bots.yaml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def run(recipe: Path) -> Path:
    folder = recipe.parent / "run"
    assert main(["league", "run", str(recipe), "--out", str(folder)]) == 0
    return folder


def digest(run: Path) -> str:
    with LeagueStore(run / "league.db", mode="read") as store:
        assert store.leases() == []
        return store.content_digest()


def test_a_population_plays_to_the_end_and_is_rated(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["league", "status", str(run), "--json", "--diagnostics"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["schedule"] == "league"
    assert {row["agent"] for row in found["ratings"]} == {
        "bot:random", "bot:middle", "bot:strong", "bot:held_out",
    }  # fmt: skip
    assert sum(row["games"] for row in found["ratings"]) == 96  # the evaluation half, both sides
    assert found["diagnostics"]["agents"] == sorted(row["agent"] for row in found["ratings"])
    assert main(["league", "status", str(run), "--diagnostics"]) == 0
    shown = capsys.readouterr().out
    assert "bot:strong" in shown
    assert "cyclic share" in shown


@pytest.mark.parametrize("error", [SandboxError("void."), StoreError("void."), KeyboardInterrupt()])
def test_what_ends_a_population_names_the_command_that_goes_on(
    error: BaseException,
    recipe: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended(*_: object) -> None:
        raise error

    monkeypatch.setattr("srl_agents.training.population.rounds.PopulationRun._block", ended)
    assert main(["league", "run", str(recipe), "--out", str(tmp_path / "run")]) in (2, 130)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f". To go on: srl league resume {tmp_path / 'run'}")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_a_finished_one_stays(
    run: Path, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = digest(run)
    assert main(["league", "run", str(recipe), "--out", str(tmp_path / "again")]) == 0
    assert digest(tmp_path / "again") == before
    assert main(["league", "resume", str(run)]) == 0
    assert digest(run) == before
    other = ["league", "run", str(recipe), "--seed", "1", "--out", str(tmp_path / "other")]
    assert main(other) == 0
    assert digest(tmp_path / "other") != before


def test_an_export_is_read_by_duckdb(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    out = tmp_path / "parquet"
    assert main(["league", "export", str(run), "--out", str(out)]) == 0
    seats = f"read_parquet('{out}/seats/**/*.parquet', hive_partitioning=true)"
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.matches()
    points = sum(
        r.outcomes[s.seats.index("bot:strong")] for s, r in matches if "bot:strong" in s.seats
    )
    query = f"SELECT sum(outcome), count(*) FROM {seats} WHERE agent_id = 'bot:strong'"
    total, rows = duckdb.sql(query).fetchall()[0]
    assert total == pytest.approx(points)
    assert rows == sum("bot:strong" in s.seats for s, _ in matches)
    splits = duckdb.sql(
        f"SELECT split, count(DISTINCT match_id) FROM {seats} GROUP BY 1"
    ).fetchall()
    assert dict(splits) == {"eval": 48, "train": 48}
    agents = duckdb.sql(f"SELECT agent_id, role FROM '{out}/agents.parquet'").fetchall()
    assert dict(agents)["bot:held_out"] == "heldout"
    assert main(["league", "export", str(run), "--out", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_cooperative_and_mixed_runs_show_their_own_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for env_id, outcomes, word in (
        ("schema_relay-v0", (0.5, 0.5), "with strangers"),
        ("iterated_dilemma-v0", (0.5, -0.5), "returns by seats held"),
        ("undercover-v0", (0.5, 0.0, 0.0, 0.0, 0.0), "in one seat, strangers in the others"),
    ):
        seats = ("a", *"b" * (len(outcomes) - 1))
        path = tmp_path / f"{env_id}.db"
        with LeagueStore(path) as store:
            for name in "ab":
                store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))
            for seed in range(4):
                spec = MatchSpec(env_id=env_id, seed=seed, split="eval", seats=seats)
                store.report(spec, MatchResult(match_id=spec.match_id, outcomes=outcomes,
                             rewards=outcomes, termination="ok"))  # fmt: skip
        capsys.readouterr()
        assert main(["league", "status", str(path)]) == 0
        assert word in capsys.readouterr().out


def test_partners_whom_training_never_met_are_rated_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`a` was trained beside `b` at a level of its own options; `c` is new to it. `b` was not trained."""
    path = tmp_path / "league.db"
    returns = {"ab": 0.8, "ac": -0.2}
    with LeagueStore(path) as store:
        for name in "abc":
            store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))
        played: tuple[tuple[Split, str], ...] = (("train", "ab"), ("eval", "ab"), ("eval", "ac"))
        for split, pair in played:
            for seed in range(4):
                spec = MatchSpec(
                    env_id="hanabi_mini-v0", seed=seed, split=split, seats=tuple(pair),
                    learner_seats=(0,) if split == "train" else (),
                    options={"max_retries": 0} if split == "train" else {},
                )  # fmt: skip
                both = (returns[pair], returns[pair])
                store.report(spec, MatchResult(match_id=spec.match_id, outcomes=both,
                             rewards=both, termination="ok"))  # fmt: skip
    assert main(["league", "status", str(path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    rows = {row["agent"]: row for row in found["cross_play"]["ratings"]}
    assert rows["a"]["held_out"]["estimate"] == pytest.approx(0.4)
    assert rows["a"]["cross_play"]["estimate"] == pytest.approx(0.65)
    assert rows["b"]["held_out"] is None


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["statsu"], ["statsu", "Did you mean 'status'?"]),
        (["run", "population-conect-four"], ["Did you mean 'population-connect-four'?"]),
        (["resume", "nowhere"], ["nowhere", "not a run's folder"]),
        (["status", "nowhere.db"], ["no league store"]),
        (["status", "x", "--watch", "2"], ["--watch was removed", "srl watch RUN"]),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], parts: list[str]
) -> None:
    assert main(["league", *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert all(part in line for part in parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("agent: strong", ["agent: bot:stron", "Did you mean 'strong'?"]),
        ("matches: 96", ["matches: 0", "matches=0"]),
        ("{agent: middle}", ["{agent: midle}", "Did you mean 'middle'?"]),
        ("{agent: middle}", ["{agent: human}", "no person can give moves in a population"]),
        ("{agent: middle}", ["{agent: tiny+nowhere}", "not an adapter folder"]),
        ("{agent: middle}", ["{agent: random}", "twice"]),
        ("{block: 32}", ["{block: 0}", "block=0"]),
        ("name: bots", ["name: a/b", "folder"]),
    ],
)
def test_a_wrong_population_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: str, parts: list[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(RECIPE.replace(change, parts[0], 1))
    assert main(["league", "run", str(path), "--out", str(tmp_path / "run")]) == 2
    assert parts[1] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


# --- dying -----------------------------------------------------------------------------------


def start(recipe: Path, run: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "srl_agents.cli.main", "league", "run", str(recipe)]
    return subprocess.Popen(
        [*command, "--out", str(run), *more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def matches_in(run: Path) -> dict[str, MatchResult]:
    try:
        with LeagueStore(run / "league.db", mode="read") as store:
            return {result.match_id: result for _, result in store.matches()}
    except StoreError:  # the run is starting
        return {}


def finish(process: subprocess.Popen[bytes]) -> None:
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output.decode()


@pytest.mark.slow
def test_killed_populations_lose_nothing_and_end_alike(recipe: Path, tmp_path: Path) -> None:
    """Five kills; what a reader has seen is there afterwards, and the end is the undisturbed one."""
    more = ["--set", "matches=640", "--set", "batch=4"]
    finish(start(recipe, tmp_path / "calm", *more))
    run, kills = tmp_path / "run", 0
    for aim in (40, 150, 260, 370, 480):
        process = start(recipe, run, *more)
        while process.poll() is None and len(matches_in(run)) < aim:
            time.sleep(0.02)
        seen = matches_in(run)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
        after = matches_in(run)
        assert all(after[key] == result for key, result in seen.items())
    finish(start(recipe, run, *more))
    assert kills >= 3
    assert digest(run) == digest(tmp_path / "calm")


@pytest.mark.nightly
def test_a_dead_worker_s_matches_are_played_by_another(
    recipe: Path, run: Path, tmp_path: Path
) -> None:
    process = start(recipe, tmp_path / "run", "--set", "workers=2", "--set", "matches=1920")
    killed = 0
    while process.poll() is None and killed < 2:
        time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            pytest.skip("needs /proc")
        if len(matches_in(tmp_path / "run")) > 200 * (killed + 1):
            with contextlib.suppress(OSError, IndexError):  # it ended by itself meanwhile
                os.kill(int(children.read_text().split()[-1]), signal.SIGKILL)
                killed += 1
    finish(process)
    assert killed == 2
    finish(start(recipe, tmp_path / "calm", "--set", "matches=1920"))
    with (
        LeagueStore(tmp_path / "run/league.db", mode="read") as one,
        LeagueStore(tmp_path / "calm/league.db", mode="read") as other,
    ):
        assert one.content_digest() == other.content_digest()


@pytest.mark.parametrize("loss", ["gone", "empty", "damaged"])
def test_a_finished_run_without_its_matches_is_not_played_again(
    recipe: Path, run: Path, tmp_path: Path, loss: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    store = folder / "league.db"
    whole = store.read_bytes()
    store.unlink()
    if loss != "gone":
        store.write_bytes(b"" if loss == "empty" else whole[: len(whole) // 2])
    for command in (
        ["league", "run", str(recipe), "--out", str(folder)],
        ["league", "status", str(folder)],
        ["leaderboard", "build", "--store", str(folder), "--out", str(tmp_path / "site")],
    ):
        capsys.readouterr()
        assert main(command) == 2
        printed = capsys.readouterr().err
        assert "league.db" in printed
        assert "Traceback" not in printed
    if loss == "damaged":
        assert "Restore it from a backup" in printed
    assert not store.exists() or store.stat().st_size <= len(whole) // 2
