"""Learners of independent runs meet; runs that cannot meet are refused before anything is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from srl_agents.cli.league.crossplay import crossplay
from srl_agents.cli.league.swap import swap
from srl_agents.cli.main import main
from srl_agents.league.agents import lineage
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, Trajectory
from srl_agents.training.crossplay import cross_play, players_of
from srl_agents.training.swap_test import (
    learners_with_seats,
    swap_matches,
    swap_result,
    swap_test,
)
from srl_envs.errors import ConfigError
from tests.training_runs import train_run

RECIPE = """
name: pair
models:
  deep: {{model: tiny, learners: [alice]}}
  shallow: {{model: tiny-shallow, learners: [bob]}}
env: {env}
seed: {seed}
updates: 1
lora: {{rank: 2, alpha: 4}}
seats: {{alice: [0], bob: [1]}}
rollout: {{start_states: 1, group_size: 2, max_new_tokens: 4}}
survival: {{allow_nothing_learned: true}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
"""


def finished(folder: Path, seed: int) -> Path:
    path = folder / "pair.yaml"
    path.write_text(RECIPE.format(env="kuhn_poker-v0", seed=seed))
    run = folder / f"run{seed}"
    train_run(load(LeagueRecipe, path), run)
    return run


def episode_of(spec: MatchSpec, outcomes: tuple[float, ...]) -> Episode:
    """A match of no turns."""
    return Episode(
        spec=spec,
        trajectories=tuple(
            Trajectory(
                seat=seat, policy=name, turns=(), outcome=own, total_reward=own, components={}
            )
            for seat, (name, own) in enumerate(zip(spec.seats, outcomes, strict=True))
        ),
        termination="ok",
    )


@pytest.mark.nightly
def test_learners_of_runs_with_two_bases_meet_in_their_seats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [finished(tmp_path, seed) for seed in (0, 1)]
    capsys.readouterr()
    plot = tmp_path / "matrix.svg"
    asked = ["league", "crossplay", *map(str, runs), "--seeds", "3", "--json", "--plot", str(plot)]
    assert main(asked) == 0
    report = json.loads(capsys.readouterr().out)
    cells = {(cell["row"], cell["column"]): cell for cell in report["cells"]}
    met = {pair: cell for pair, cell in cells.items() if "start" not in " ".join(pair)}
    assert {tuple(sorted(pair)) for pair in met} == {
        tuple(sorted((f"run{a}:alice", f"run{b}:bob"))) for a in (0, 1) for b in (0, 1)
    }
    for (a, b), cell in met.items():
        assert cell["mean"] == pytest.approx(-met[b, a]["mean"])
        assert cell["seeds"] == 3
    assert report["together"]["seeds"] == report["strangers"]["seeds"] == 3
    assert report["starts"]["seeds"] == 3
    # one start for both runs, though each begins anew
    assert [name for name in report["players"] if name.startswith("start")] == [
        "start:deep",
        "start:shallow",
    ]
    assert set(report["gains"]) == {name for name in report["players"] if name.startswith("run")}
    assert not report["team_gains"], "what one wins here the other loses"
    assert plot.read_text().count("<rect") == len(cells)


@pytest.mark.slow
def test_a_pair_of_roles_is_told_what_it_is_worth_to_strangers_and_more_than_its_start(
    tmp_path: Path,
) -> None:
    """The shipped recipe of partners, short: each learner and its past stay in their seat."""
    short = (
        "updates=1",
        "rollout={start_states: 1, group_size: 2, max_new_tokens: 4}",
        "opponents.past=1",
        "evaluation.final_pairs=1",
        "survival={allow_nothing_learned: true}",
    )
    runs = [tmp_path / "one", tmp_path / "two"]
    for seed, run in enumerate(runs):
        train_run(load(LeagueRecipe, find_recipe("roles-hanabi"), [*short, f"seed={seed}"]), run)
        with LeagueStore(run / "league.db", mode="read") as store:
            seats = {
                (seat, lineage(a)) for s, _ in store.matches() for seat, a in enumerate(s.seats)
            }
        assert not seats & {(1, "alice"), (0, "bob")}
    recipe, players = players_of(runs)
    assert [player.label for player in players] == [
        "one:alice", "one:bob", "two:alice", "two:bob", "start:tiny",
    ]  # fmt: skip
    (found,) = cross_play(recipe, players, 2)
    assert set(found.team_gains) == {"together", "strangers"}
    assert set(found.gains) == {player.label for player in players[:4]}
    assert found.starts is not None
    assert found.strangers is not None
    gain = found.strangers.estimate - found.starts.estimate
    assert found.team_gains["strangers"].estimate == pytest.approx(gain)

    (swapped,) = swap_test(runs[0], 3)
    assert set(swapped.learners) == {"alice", "bob"}
    assert swapped.own.clusters == 3
    own = cross_play(recipe, players[:2], 3)[0].cells["one:alice", "one:bob"]
    assert swapped.own.estimate == pytest.approx((1 + own.estimate) / 2), "one rule for both"


def test_runs_that_cannot_meet_are_refused(tmp_path: Path) -> None:
    for name, env in (("a", "kuhn_poker-v0"), ("b", "nim-v0"), ("c", "kuhn_poker-v0")):
        (tmp_path / name / "adapters/alice").mkdir(parents=True)
        (tmp_path / name / "adapters/bob").mkdir()
        (tmp_path / name / "recipe.yaml").write_text(RECIPE.format(env=env, seed=0))
    several = "\nenvironments: [{env: nim-v0}, {env: kuhn_poker-v0}]"
    task = "\nenv: math_duel-v0\nenv_options: {players: 1}"
    for name, games in (("d", several), ("e", task)):
        shutil.copytree(tmp_path / "b", tmp_path / name)
        recipe = (tmp_path / "b/recipe.yaml").read_text().replace("\nenv: nim-v0", games)
        recipe = recipe.replace("\nseats: {alice: [0], bob: [1]}", "")
        (tmp_path / name / "recipe.yaml").write_text(recipe)
    shutil.rmtree(tmp_path / "c/adapters/bob")

    for names, words in (
        (("a", "b"), "only runs of the same games meet"),
        (("d", "b"), "only runs of the same games meet"),
        (("e", "b"), "math_duel-v0: tasks of one seat"),
        (("a", "c"), "has not exported 'bob'"),
        (("a", "nowhere"), "is not the folder of a run"),
    ):
        with pytest.raises(ConfigError, match=words):
            players_of([tmp_path / name for name in names])
    with pytest.raises(ConfigError, match="name two or more"):
        crossplay([str(tmp_path / "a")])
    with pytest.raises(ConfigError, match="no two learners have seats of their own"):
        learners_with_seats(tmp_path / "d")
    with pytest.raises(ConfigError, match="use 2 or more"):
        swap([str(tmp_path / "a"), "--seeds", "1"])
    free = (tmp_path / "b/recipe.yaml").read_text().replace("\nseats: {alice: [0], bob: [1]}", "")
    (tmp_path / "b/recipe.yaml").write_text(free)
    with pytest.raises(ConfigError, match="no two learners have seats of their own"):
        learners_with_seats(tmp_path / "b")
    (game,), held, starts = learners_with_seats(tmp_path / "a")
    assert [held[seat].learner for seat in (0, 1)] == ["alice", "bob"]
    specs = swap_matches(game, held, starts, 2)
    assert [(spec.schedule, spec.seats) for spec in specs[::2]] == [
        ("eval/own", ("a:alice", "a:bob")),
        ("eval/swap", ("a:bob", "a:alice")),
        ("eval/start", ("start:deep", "start:shallow")),
    ]
    # by hand: seat 0 wins in own seats on both seeds; exchanged, seat 0 wins on the first only
    paid = {"own": (1.0, 1.0), "swap": (1.0, -1.0), "start": (0.0, 0.0)}
    episodes = [
        episode_of(spec, (won, -won))
        for spec in specs
        for won in (paid[spec.schedule.removeprefix("eval/")][spec.seed % 2],)
    ]
    found = swap_result(game, held, episodes)
    assert found.own.estimate == found.swapped.estimate == found.start.estimate == 0.5
    assert found.learners["alice"].estimate == pytest.approx(1.0 - (0.0 + 1.0) / 2)
    assert found.learners["bob"].estimate == pytest.approx(0.0 - (1.0 + 0.0) / 2)


@pytest.mark.slow
def test_runs_of_several_games_meet_in_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    games = (
        "\nenvironments: [{env: nim-v0}, {env: kuhn_poker-v0}, "
        "{env: math_duel-v0, env_options: {players: 1}}]"
    )
    recipe = tmp_path / "games.yaml"
    text = RECIPE.format(env="nim-v0", seed=0).replace("\nenv: nim-v0", games)
    recipe.write_text(text.replace("\nseats: {alice: [0], bob: [1]}", ""))
    for name in ("one", "two"):
        train_run(load(LeagueRecipe, recipe), tmp_path / name)
    capsys.readouterr()
    runs = [str(tmp_path / name) for name in ("one", "two")]
    plot = tmp_path / "matrix.svg"
    assert main(["league", "crossplay", *runs, "--seeds", "2", "--json", "--plot", str(plot)]) == 0
    found = json.loads(capsys.readouterr().out)["games"]
    assert [game["game"] for game in found] == ["nim-v0", "kuhn_poker-v0"]
    for game in found:
        assert {cell["seeds"] for cell in game["cells"]} == {2}
        assert "one:alice" in game["gains"]
    assert plot.read_text().count("<rect") == sum(len(game["cells"]) for game in found)


@pytest.mark.slow
def test_learners_exchange_their_seats_in_every_game(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    games = "\nenvironments: [{env: nim-v0}, {env: kuhn_poker-v0}]"
    recipe = tmp_path / "games.yaml"
    recipe.write_text(RECIPE.format(env="nim-v0", seed=0).replace("\nenv: nim-v0", games))
    train_run(load(LeagueRecipe, recipe), tmp_path / "run")
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        seated = {
            (spec.env_id, seat, lineage(name))
            for spec, _ in store.matches()
            for seat, name in enumerate(spec.seats)
        }
    learners = {place for place in seated if place[2] in ("alice", "bob")}
    assert learners == {
        (game, seat, name)
        for game in ("nim-v0", "kuhn_poker-v0")
        for seat, name in enumerate(("alice", "bob"))
    }
    capsys.readouterr()
    assert main(["league", "swap", str(tmp_path / "run"), "--seeds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["games"]
    assert [game["game"] for game in found] == ["nim-v0", "kuhn_poker-v0"]
    assert {game["own"]["seeds"] for game in found} == {2}
    assert main(["league", "swap", str(tmp_path / "run"), "--seeds", "2"]) == 0
    mean = sum(game["drop"]["mean"] for game in found) / 2
    assert f"drop over all 2 games: {mean:+.3f}" in capsys.readouterr().out


def test_seats_are_roles_in_games_of_as_many_seats(tmp_path: Path) -> None:
    recipe = tmp_path / "games.yaml"
    for other in ("public_goods-v0", "{env: math_duel-v0, env_options: {players: 1}}"):
        game = other if "{" in other else f"{{env: {other}}}"
        games = f"\nenvironments: [{{env: nim-v0}}, {game}]"
        recipe.write_text(RECIPE.format(env="nim-v0", seed=0).replace("\nenv: nim-v0", games))
        with pytest.raises(ConfigError, match=r"seats: .* different numbers of seats: nim-v0 2, "):
            load(LeagueRecipe, recipe)
