"""Records reach a tracker under the grouped names; a missing tracker is reported at once."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from srl_agents.metrics.names import GROUPED, MEANINGS, Record
from srl_agents.metrics.trackers import Tracker, require_trackers
from srl_envs.errors import ConfigError

FAKE = """
import json, pathlib
LOG = pathlib.Path(__file__).with_suffix(".log")

class Run:
    def log(self, metrics, step=None):
        note("log", metrics=metrics, step=step)

    def finish(self):
        note("finish")

def note(call, **values):
    with LOG.open("a") as file:
        file.write(json.dumps({"call": call, **values}) + "\\n")

def init(project, name=None, config=None, resume="never", **own):
    note("init", project=project, name=name, config=config, resume=resume, own=own)
    return Run()
"""


@pytest.mark.parametrize(
    ("name", "own"), [("trackio", {"embed": False}), ("wandb", {"id": "c0ffee"})]
)
def test_a_run_is_told_what_it_is_and_gets_every_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Any, own: dict[str, Any]
) -> None:
    (tmp_path / f"{name}.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    tracker = Tracker(name, project="srl", run="mine-seed0", run_id="c0ffee", config={"seed": 0})
    learners = {"alice": {"reward": 0.5, "value/loss": 0.25}}
    tracker.write(Record(update=3, updates=9, run={"tokens_per_s": 10.0}, learners=learners))
    tracker.close()
    started, sent, ended = map(json.loads, (tmp_path / f"{name}.log").read_text().splitlines())
    assert started == {
        "call": "init", "project": "srl", "name": "mine-seed0", "config": {"seed": 0},
        "resume": "allow", "own": own,
    }  # fmt: skip
    assert (sent["step"], sent["metrics"]) == (
        3,
        {
            "throughput/tokens_per_sec": 10.0,
            "alice/reward/mean": 0.5,
            "alice/value/loss": 0.25,
        },
    )
    assert ended == {"call": "finish"}


def test_a_tracker_that_does_not_begin_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights & Biases raises an error of its own where no user is logged in."""
    (tmp_path / "wandb.py").write_text("def init(**_):\n    raise RuntimeError('No API key.')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(ConfigError, match=r"report_to: wandb does not begin: .*No API key"):
        Tracker("wandb", project="srl", run="mine", run_id="c0ffee", config={})


def test_a_tracker_that_is_not_installed_is_named_with_its_extra() -> None:
    require_trackers(())
    missing = [n for n in ("trackio", "wandb") if importlib.util.find_spec(n) is None]
    for name in missing:
        with pytest.raises(ConfigError, match=rf'{name} is not installed: pip install "srl-envs'):
            require_trackers([name])


def test_grouped_names_are_those_of_the_dashboards() -> None:
    assert set(GROUPED) <= set(MEANINGS)
    names = {GROUPED.get(name, name) for name in MEANINGS}
    assert names >= {
        "reward/mean", "reward/std", "reward/max", "reward/min", "kl/mean", "kl/max",
        "policy/entropy", "policy/clip_fraction", "value/loss", "value/explained_var",
        "throughput/tokens_per_sec", "memory/allocated_gb",
    }  # fmt: skip
