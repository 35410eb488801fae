"""Generation beside training, with real processes: either may be killed, and the run ends as it should."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
import torch
from rich.console import Console

from srl_agents.checkpoints import load as load_checkpoint
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics import ConsoleView, Record
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.rollouts.buffer import MatchBuffer
from srl_agents.training.ahead.demand import Demand
from srl_agents.training.loop.run import LeagueTraining
from srl_agents.training.loop.state import CLOCK, FILES
from tests.chat_server import MODEL, chat_server
from tests.forked_commands import start_function
from tests.training_runs import metrics_of

pytestmark = pytest.mark.slow

RECIPE = """
name: beside
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 3
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 1, group_size: 3, max_new_tokens: 8}
opponents: {mirror: 0.5, live: 1, past: 1}
training: {learning_rate: 0.003}
credit: {importance_cap: 2.0}
asynchronous: {ahead: 1, max_staleness: 1, refill_limit: 2}
transport: {kind: files}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 1
"""
SEVERAL = """
name: beside
model: tiny
environments:
  - {env: connect_four-v0, env_options: {rows: 4, cols: 4, k: 3}, levels: [{cols: 5}, {}]}
  - {env: nim-v0, bots: {random: 1}}
curriculum: {kind: difficulty, raise_at: 0.01, lower_at: 0.0, games: 1}
updates: 3
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 2, max_new_tokens: 4, order: exact}
opponents: {mirror: 0, live: 0, past: 1}
training: {learning_rate: 0.003}
asynchronous: {ahead: 1, max_staleness: 1}
transport: {kind: files}
survival: {allow_nothing_learned: true}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 1
checkpoint_every: 1
"""
GUEST = """
opponents: {{mirror: 0, past: 0, live: 1, agents: {{"{agent}": 1}},
  budgets: {{"{agent}": {{requests: 400}}}}}}
"""
MATCHES = 2 * 1 * 3
"""Of one update, without what flat groups were replaced by."""


class Killing(ConsoleView):
    """Kills this process when an update is reported, or generation when one is being learned from."""

    training: LeagueTraining

    def __init__(self, own_after: int = 0, generation_in: int = 0) -> None:
        super().__init__("run", 3, Console(quiet=True))
        self._own_after, self._generation_in = own_after, generation_in
        self.killed = 0

    def write(self, record: Record) -> None:
        if record.update == self._own_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def phase(self, name: str, total: int | None = None) -> None:
        super().phase(name, total)
        if name == f"update {self._generation_in}: training":
            process = self.training.parts.process
            assert process is not None
            assert process.pid is not None
            self.killed = process.pid
            os.kill(process.pid, signal.SIGKILL)


def go_on(folder: Path, view: Killing) -> LeagueTraining:
    """Train to the end, or until the view kills this process."""
    view.training = LeagueTraining(load(LeagueRecipe, folder / "r.yaml"), folder / "run", view)
    try:
        view.training.run()
    finally:
        view.training.close()
    return view.training


def train_until_killed(folder: Path) -> None:
    go_on(folder, Killing(own_after=2))


@pytest.mark.nightly
def test_an_endpoint_that_is_met_ahead_is_asked_no_more_than_its_budget_whoever_is_killed(
    tmp_path: Path,
) -> None:
    with chat_server(reply=lambda _: "<action>1</action>") as server:
        agent = f"openai:{MODEL}@{server.url}"
        lines = [line for line in RECIPE.splitlines() if not line.startswith("opponents")]
        (tmp_path / "r.yaml").write_text("\n".join(lines) + GUEST.format(agent=agent))
        killed = start_function(train_until_killed, (tmp_path,), tmp_path / "log")
        killed.join()
        assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
        training = go_on(tmp_path, Killing(generation_in=3))
        asked = len(server.requests)
    run = tmp_path / "run"
    spent = json.loads((run / "budgets.json").read_text())[agent]
    processes = 2 + 3
    """Each has asked for one token before it began."""
    assert 0 < asked - processes <= spent["requests"] <= 400
    assert all(not match["open"] for match in spent["matches"].values())
    with LeagueStore(run / "league.db", mode="read") as store:
        met = [spec for spec, _ in store.matches(split="train") if agent in spec.seats]
    assert met
    assert {spec.match_id for spec in met} <= set(spent["matches"])
    assert training.parts.league.gone, "the budget was never short"


def test_both_processes_are_killed_and_no_match_is_lost_or_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE)
    run = tmp_path / "run"
    killed = start_function(train_until_killed, (tmp_path,), tmp_path / "log")
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    before = metrics_of(run)
    buffer = MatchBuffer(run / "generation", 2)
    assert buffer.numbers() == [2, 3]
    order, played = buffer.find(2), buffer.played(2)
    played.refresh()
    assert order is not None
    assert not Demand(order, None).open(played.episodes)

    view = Killing(generation_in=3)
    training = go_on(tmp_path, view)
    process = training.parts.process
    assert process is not None
    assert view.killed
    assert process.starts <= 2  # the run may end before it is missed
    after = metrics_of(run)
    assert [record["update"] for record in after] == [1, 2, 3]
    assert after[:2] == before[:2]  # the second was learned again, from the same matches

    refilled = sum(record["run"]["refilled"] for record in after)
    with LeagueStore(run / "league.db", mode="read") as store:
        trained = [spec for spec, _ in store.matches() if spec.split == "train"]
    names = Counter((s.schedule, s.number, s.attempt) for s in trained)
    assert set(names.values()) == {1}
    assert len(trained) == 3 * MATCHES + 3 * refilled
    assert len({(s.schedule, s.number, s.seed) for s in trained}) == len(trained) / 3
    for record in after:
        for learner, values in record["learners"].items():
            age = min(record["update"] - 1, 1)
            assert values["rows_too_old"] == 0, learner
            assert values["version_lag/max"] <= age
    assert buffer.numbers() == []


@pytest.mark.nightly
def test_games_and_levels_that_a_curriculum_draws_ahead_are_drawn_alike_after_a_kill(
    tmp_path: Path,
) -> None:
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "r.yaml").write_text(SEVERAL)
    killed = start_function(train_until_killed, (tmp_path / "killed",), tmp_path / "log")
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    for name in ("whole", "killed"):
        go_on(tmp_path / name, Killing())

    runs = [tmp_path / name / "run" for name in ("whole", "killed")]
    one, other = (load_checkpoint(run / "checkpoints/step-00000003") for run in runs)
    assert one.state | {FILES: {}, CLOCK: {}} == other.state | {FILES: {}, CLOCK: {}}
    assert all(
        torch.equal(tensor, other.tensors[group][key])
        for group, own in one.tensors.items()
        for key, tensor in own.items()
    )
    matches = []
    for run in runs:
        with LeagueStore(run / "league.db", mode="read") as store:
            matches.append(store.content_digest())
            played = {(s.env_id, s.options.get("cols")) for s, _ in store.matches(split="train")}
    assert matches[0] == matches[1]
    assert played == {("connect_four-v0", 5), ("connect_four-v0", 4), ("nim-v0", None)}
