"""`srl_agents.train`, `Run` and `load_agent`: a whole run from Python, in the smallest recipe that learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import srl_agents
from srl_agents.metrics import Record
from srl_envs.errors import CallbackError, ConfigError

RECIPE: dict[str, Any] = {
    "name": "small", "model": "tiny", "env": "nim-v0", "learners": ["alice"], "updates": 3,
    "rollout": {"start_states": 2, "group_size": 3, "max_new_tokens": 8},
    "opponents": {"mirror": 0, "live": 0, "past": 0, "bots": {"random": 1}},
    "training": {"learning_rate": 1e-3},
    "evaluation": {"every": 0, "final_pairs": 2, "bots": ["random"]},
    "checkpoint_every": 5, "snapshot_every": 5,
}  # fmt: skip


class Moments(srl_agents.RunCallback):
    """Notes every call; stops after one update."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.stopped = ""

    def begin(self, start: srl_agents.RunStart) -> None:
        self.calls.append(("begin", start.done))

    def update(self, report: srl_agents.UpdateReport) -> None:
        assert report.learners["alice"]["rows"] >= 0
        assert report.run["generate_s"] > 0
        self.calls.append(("update", report.update))
        report.stop("enough")

    def end(self, end: srl_agents.RunEnd) -> None:
        self.stopped = end.stopped
        self.calls.append(("end", end.done))


class Kept:
    """A sink that raises after an update, if wanted."""

    def __init__(self, raising: bool = False) -> None:
        self.updates: list[int] = []
        self.raising, self.closed = raising, False

    def write(self, record: Record) -> None:
        self.updates.append(record.update)
        if self.raising:
            raise ValueError("full")

    def close(self) -> None:
        self.closed = True


@pytest.mark.slow
def test_a_run_from_python_stops_goes_on_and_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, moments, failing, sink = tmp_path / "run", Moments(), Kept(raising=True), Kept()

    stopped = srl_agents.train(RECIPE, out=folder, callbacks=[moments], quiet=True)
    assert stopped.outcome is not None
    assert stopped.outcome.stopped == moments.stopped == "enough"
    assert moments.calls == [("begin", 0), ("update", 1), ("end", 1)]
    assert [record.update for record in stopped.metrics()] == [1]
    assert (folder / "checkpoints").is_dir()
    with pytest.raises(ConfigError, match="resume=False"):
        srl_agents.train(folder, resume=False)

    with pytest.raises(
        CallbackError, match=r"Kept raised ValueError: full after update 2\. "
    ) as raised:
        srl_agents.train(folder, sinks=[failing], quiet=True)
    assert "Emergency checkpoint of update 2: " in str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)
    assert failing.closed

    run = srl_agents.train(
        folder, overrides={"evaluation.final_pairs": 3}, sinks=[sink], quiet=True
    )
    assert sink.updates == [3]
    assert run.outcome is not None
    assert not run.outcome.stopped
    assert (run.recipe.updates, run.recipe.evaluation.final_pairs) == (3, 3)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")

    run = srl_agents.Run.open(folder)
    assert [record.update for record in run.metrics()] == [1, 2, 3]
    (last,) = [version for version in run.versions() if version.number]
    (rows,) = run.ratings().values()
    assert {str(last), "tiny", "bot:random"} == {row.agent for row in rows}
    (gain,) = run.gains()
    assert (gain.agent, gain.start, gain.game, gain.unit) == (str(last), "tiny", "nim-v0", "score")
    text = "Heaps: 3 4 5. Your move."
    with (
        srl_agents.load_agent(folder, last.label, seed=4) as agent,
        run.agent("alice", seed=4) as same,
    ):
        assert agent.name == same.name == str(last)
        assert agent(text) == same(text)
    with run.agent("bot:random") as bot:
        assert "<action>" in bot(srl_agents_observation())
    with pytest.raises(ConfigError, match=r"no agent 'bob@1'\."):
        run.agent("bob@1")


def srl_agents_observation() -> str:
    import srl_envs

    env = srl_envs.make("nim-v0")
    observations, _ = env.reset(seed=1)
    text = str(observations[env.possible_agents[0]]["text"])
    env.close()
    return text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"recipe": "quickstart-tyni"}, "Did you mean 'quickstart-tiny'"),
        ({"recipe": {**RECIPE, "updats": 3}}, "Did you mean 'updates'"),
        (
            {"recipe": RECIPE, "overrides": {"updates.x": 3}},
            "override 'updates.x': 'updates' holds no keys",
        ),
        ({"recipe": RECIPE, "updates": 3, "more": 3}, "leave one out"),
        ({"recipe": RECIPE, "more": 3}, "small is not a run's folder"),
        ({"recipe": RECIPE, "callbacks": [3]}, "callbacks: 3: give a function"),
        ({"recipe": RECIPE, "callbacks": [Moments]}, "callbacks: .*Moments"),
        ({"recipe": RECIPE, "sinks": [print]}, "sinks: .* write"),
        ({"recipe": RECIPE, "ray": "auto", "sinks": [Kept()]}, "ray, callbacks, sinks"),
        ({"recipe": "population-connect-four"}, "no learners"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_the_first_second(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        srl_agents.train(**arguments, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert RECIPE["updates"] == 3  # what the caller gave stays as it is


def test_a_folder_without_a_run_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no run: recipe.yaml is missing"):
        srl_agents.Run.open(tmp_path)
