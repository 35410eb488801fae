"""Opponents behind endpoints in training: what one answered is asked once, though the run is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from srl_agents.cli.pages.desk.handler import desk_server
from srl_agents.cli.pages.desk.questions import Desk
from srl_agents.engines.endpoint.reply_journal import REPLIES
from srl_agents.metrics import ConsoleView, Record
from srl_agents.metrics.sinks import read_lines
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.gauges.live_run import RunWatch
from srl_agents.training.loop.run import LeagueTraining
from tests.chat_server import MODEL, chat_server
from tests.forked_commands import start_function
from tests.srl_agents.cli.test_serve_human import a_person

pytestmark = pytest.mark.slow

RECIPE = """
name: paid
model: tiny
env: connect_four-v0
env_options: {{rows: 4, cols: 4, k: 3}}
updates: 3
learners: [alice]
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 2, group_size: 2, max_new_tokens: 8, order: exact}}
opponents:
  {{mirror: 0, live: 0, past: 0, agents: {{'{agent}': 1}}, budgets: {{'{agent}': {{requests: 1000}}}}}}
evaluation: {{every: 2, pairs: 1, final_pairs: 1, bots: [], agents: ['{agent}']}}
checkpoint_every: 3
"""


class Killing(ConsoleView):
    """Kills this process when an update is reported."""

    def __init__(self, after: int) -> None:
        super().__init__("run", 3, Console(quiet=True))
        self._after = after

    def write(self, record: Record) -> None:
        if record.update == self._after:
            os.kill(os.getpid(), signal.SIGKILL)


def go_on(folder: Path, kill_after: int) -> None:
    """Train to the end, or until the view kills this process."""
    training = LeagueTraining(
        load(LeagueRecipe, folder / "r.yaml"), folder / "run", Killing(kill_after)
    )
    try:
        training.run()
    finally:
        training.close()


def kept_in(folder: Path) -> list[str]:
    """Digests of the requests that the run's journal has."""
    lines = (folder / "run" / REPLIES).read_text().splitlines()
    return [json.loads(line)["request"] for line in lines]


def test_no_answered_request_is_paid_again_when_a_killed_run_goes_on(tmp_path: Path) -> None:
    """It is killed after its second update, with no checkpoint: both are played again."""
    with chat_server(reply=lambda request: "<action>2</action>") as server:
        agent = f"openai:{MODEL}@{server.url}"
        (tmp_path / "r.yaml").write_text(RECIPE.format(agent=agent))
        killed = start_function(go_on, (tmp_path, 2), tmp_path / "log")
        killed.join()
        assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
        paid = len(server.requests)
        assert len(kept_in(tmp_path)) == paid > 10

        go_on(tmp_path, kill_after=0)
        kept = kept_in(tmp_path)
        assert len(kept) == len(set(kept)) == len(server.requests) > paid
    (spent,) = json.loads((tmp_path / "run/budgets.json").read_text()).values()
    assert spent["requests"] == len(server.requests) - 1  # one tested the connection
    records = read_lines(tmp_path / "run/metrics.jsonl")
    assert [record["update"] for record in records] == [1, 2, 3]


def test_a_person_who_is_asked_when_a_run_is_killed_finds_the_same_questions(
    tmp_path: Path,
) -> None:
    """Killed while a person thinks: answered questions are not asked again, the others still wait."""
    desk = Desk()
    with desk_server(desk, "127.0.0.1", 0) as url:
        text = RECIPE.format(agent=f"openai:human@{url}/v1").replace("updates: 3", "updates: 1")
        text = text.replace("start_states: 2", "start_states: 1").partition("evaluation:")[0]
        text += "evaluation: {every: 0, final_pairs: 1, bots: []}\n"
        (tmp_path / "r.yaml").write_text(text)
        killed = start_function(go_on, (tmp_path, 2), tmp_path / "log")
        try:
            until(lambda: bool(desk.waiting()))
            (line,) = RunWatch(tmp_path / "run").look().people
            assert re.fullmatch(rf"\d asked at {url}, waited for \d+ s: answer there", line)
            answered = [question["number"] for question in desk.waiting()]
            for number in answered:
                assert desk.answer(number, "2")
            until(lambda: len({q["number"] for q in desk.waiting()} - {*answered}) == len(answered))
        finally:
            killed.kill()
            killed.join()
        until(lambda: not any(question["waited_for"] for question in desk.waiting()))
        left = {question["number"]: question["chat"] for question in desk.waiting()}
        assert left
        tried = 1  # the connection test: a reply of one token, not from a person
        assert len(kept_in(tmp_path)) == tried + len(answered)

        with a_person(url, lambda _: "<action>2</action>") as asked:
            go_on(tmp_path, kill_after=0)
        assert not desk.waiting()
        assert set(left) <= set(asked)
        assert desk.answered == len(answered) + len(asked) == len(kept_in(tmp_path)) - tried
    (spent,) = json.loads((tmp_path / "run/budgets.json").read_text()).values()
    assert spent["requests"] == desk.answered + len(left)  # those were sent twice


def until(there: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    for _ in range(12_000):
        if there():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within two minutes")
