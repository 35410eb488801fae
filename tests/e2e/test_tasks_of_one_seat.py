"""A league that trains on a task of one seat beside a duel: trained, gated, measured, reported."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from srl_agents.cli.league.status import status as league_status
from srl_agents.cli.pages.report.render import report_data
from srl_agents.cli.pages.report.runs import read_run
from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.standings import read_status
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.start.task_files import TASK_FILES
from srl_envs import make
from srl_envs.api.questions import find_file
from srl_envs.check_tasks import check_tasks
from srl_envs.core import SPLITS
from srl_envs.errors import ConfigError
from srl_envs.families.reasoning.math_duel import check_source
from tests.training_runs import metrics_of, train_run

ROWS = 40
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
RECIPE = """
name: public_rows
model: tiny
environments:
  - {env: math_duel-v0, name: task, env_options: {players: 1, problems: 1, tasks: gsm8k}}
  - {env: code_duel-v0, name: programs, env_options: {players: 1, tasks: humaneval}}
learners: [alice]
updates: 2
lora: {rank: 8, alpha: 16}
rollout: {start_states: 4, group_size: 2, max_new_tokens: 24}
training: {learning_rate: 1.0e-3}
evaluation: {every: 2, pairs: 1, final_pairs: 2, bots: [random]}
"""


def rows_file(folder: Path) -> str:
    """``gsm8k:PATH`` of rows that were written there."""
    path = folder / "rows.jsonl"
    with path.open("w") as file:
        for k in range(ROWS):
            row = {
                "question": f"Ann has {k} pears and gets 2. How many?",
                "answer": f"#### {k + 2}",
            }
            file.write(json.dumps(row) + "\n")
    return f"gsm8k:{path}"


@pytest.mark.slow
def test_a_task_of_one_seat_is_trained_gated_rated_without_elo_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = rows_file(tmp_path)
    task = f"{{players: 1, problems: 1, tasks: '{source}'}}"
    recipe = load(
        LeagueRecipe,
        find_recipe("tasks-tiny"),
        [
            f"environments=[{{env: math_duel-v0, name: task, env_options: {task}}}, "
            "{env: math_duel-v0, name: duel, env_options: {problems: 1}}]",
            "updates=2",
            "evaluation={every: 1, pairs: 2, final_pairs: 3, bots: [random]}",
            "snapshot_every=1",
            "promotion={elo1: 800, alpha: 0.4, beta: 0.4, min_pairs: 2, anchor_pairs: 1, "
            "anchor_margin: 0.9}",
        ],
    )
    run = tmp_path / "run"
    train_run(recipe, run)
    with LeagueStore(run / "league.db", mode="read") as store:
        options = recipe.games[0].options
        trained = [s for s, _ in store.matches(split="train") if s.options == options]
        gated = [s for s, _ in store.matches(purpose="gate") if s.options == options]
        final = [s for s, _ in store.matches(schedule=FINAL) if s.options == options]
        task_status, duel_status = sorted(read_status(store), key=lambda s: s.table is not None)[:2]
    assert trained
    assert gated
    assert all(len(spec.seats) == 1 for spec in (*trained, *gated, *final))
    agents = {spec.seats[0] for spec in final}
    assert len(agents) == 4  # two learners, their start, and the bot
    assert len(final) == 3 * len(agents)
    assert task_status.table is None
    assert {row.agent for row in task_status.focal} == agents
    assert len(task_status.gains) == 2
    assert duel_status.table is not None

    last = metrics_of(run)[-1]["learners"]["alice"]
    assert 0 <= last["game/task/return_alone"] <= 1
    transfer = json.loads((run / "transfer.json").read_text())["rows"]
    assert {row["game"] for row in transfer} == {"task", "duel"}
    (shown,) = report_data([read_run(run)], "srl report")["runs"]
    single = [table for table in shown["tables"] if table["alone"]]
    assert [row["agent"] for row in single[0]["alone"]] == [row.agent for row in task_status.focal]
    assert single[0]["rows"] == []
    league_status([str(run)])
    shown_status = capsys.readouterr().out
    assert "math_duel-v0 (players=1, tasks=gsm8k:" in shown_status
    assert single[0]["title"].startswith("math_duel-v0 (players=1, tasks=gsm8k:")


@pytest.mark.nightly
@pytest.mark.slow
def test_public_rows_called_by_name_are_trained_on_and_those_held_out_are_measured(
    tmp_path: Path,
) -> None:
    for name in ("gsm8k", "humaneval"):
        try:
            find_file(name, SHARED)
        except ConfigError:
            pytest.skip(f"no {name} collection beside the repository")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    recipe = load(LeagueRecipe, tmp_path / "recipe.yaml", rows=SHARED)
    run = tmp_path / "run"
    train_run(recipe, run)
    with LeagueStore(run / "league.db", mode="read") as store:
        played = {split: store.matches(split=split) for split in SPLITS}
    held = [
        task.text
        for game in recipe.games
        for task in check_tasks(game.options["tasks"]).splits["eval"]
    ]
    for split, matches in played.items():
        for spec, _ in matches:
            with closing(make(spec.env_id, split=split, **spec.options)) as env:
                (seen,) = env.reset(seed=spec.seed)[0].values()
            assert any(text in seen["text"] for text in held) == (split == "eval")
    assert {spec.env_id for spec, _ in played["train"]} == {"math_duel-v0", "code_duel-v0"}
    assert {spec.env_id for spec, _ in played["eval"]} == {"math_duel-v0", "code_duel-v0"}
    assert len(json.loads((run / TASK_FILES).read_text())) == 2
    transfer = json.loads((run / "transfer.json").read_text())["rows"]
    assert {row["game"] for row in transfer} == {"task", "programs"}


def test_rows_that_are_held_out_are_never_trained_on(tmp_path: Path) -> None:
    splits = check_source(rows_file(tmp_path)).splits
    train, held = ({task.text for task in splits[split]} for split in ("train", "eval"))
    assert train
    assert held
    assert not train & held
