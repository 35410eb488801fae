"""Measuring with Inspect: its tables, what stops it, and a whole run where Inspect is installed."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from srl_agents.agents.players import ModelPolicy
from srl_agents.cli.eval import EvalOptions, of_run, planned, table
from srl_agents.engines.protocol import GenerationRequest
from srl_agents.engines.scripted import ScriptedEngine
from srl_agents.exports.inspect_run import PYTHON, Measured, interpreter, measure
from srl_envs.api.questions import read_questions
from srl_envs.errors import ConfigError, ModelError, SRLError
from srl_envs.families.reasoning.math_duel import MathDuel

HAS_INSPECT = PYTHON in os.environ or importlib.util.find_spec("inspect_ai") is not None


def solves(request: GenerationRequest) -> str:
    """Right on the rows below; in games the reply holds no move."""
    return "\\boxed{4}" if "Two and two" in request.observation else "\\boxed{0}"


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_gains_are_taken_sample_by_sample_and_games_by_seed() -> None:
    before = Measured("base", "nim-v0", {"0/0": -1.0, "0/1": 1.0, "1/0": -1.0, "1/1": 1.0})
    after = Measured(
        "alice", "nim-v0", {"0/0": 1.0, "0/1": 1.0, "1/0": 1.0, "1/1": 1.0, "2/0": 1.0}
    )
    first, second = table([before, after])
    assert (first["score"], first["gain"]) == (0.0, None)
    assert second["gain"] == 1.0
    # equal in both seeds, which is weak evidence about others
    assert first["half_width"] == second["gain_half_width"] == pytest.approx(1.684, abs=1e-3)
    assert second["samples"] == 5


def test_the_adapters_of_a_run_are_compared_with_their_own_base_behind_its_prompt(
    tmp_path: Path,
) -> None:
    (tmp_path / "recipe.yaml").write_text(
        "name: a\nenv: nim-v0\nmodels:\n  deep: {model: tiny, learners: [alice]}\n"
        "  shallow: {model: tiny-shallow, learners: [bob]}\n"
    )
    for name in ("alice", "bob", "bob-best"):
        (tmp_path / "adapters" / name).mkdir(parents=True)
        (tmp_path / "adapters" / name / "adapter_config.json").touch()
    (tmp_path / "adapters/bob/prompt.json").touch()
    alice, bob = (tmp_path / "adapters" / name for name in ("alice", "bob"))
    agents = of_run(tmp_path)
    assert agents == [
        "tiny", f"tiny+{alice}", f"tiny-shallow?prompt={bob}", f"tiny-shallow+{bob}",
    ]  # fmt: skip
    scores = [Measured(agent, "gsm8k", {"x": k, "y": k}) for k, agent in enumerate(agents)]
    assert [row["over"] for row in table(scores)] == [None, "tiny", "tiny", agents[2]]
    with pytest.raises(ConfigError, match="holds no run of learners"):
        of_run(tmp_path / "adapters")


def test_one_sample_has_no_interval() -> None:
    (row,) = table([Measured("a", "gsm8k", {"x": 1.0})])
    assert (row["score"], row["half_width"]) == (1.0, None)
    assert math.isnan(Measured("a", "gsm8k", {}).mean)


def test_a_python_without_inspect_is_refused_with_what_to_install(tmp_path: Path) -> None:
    bare = script(
        tmp_path / "python",
        "echo \"ModuleNotFoundError: No module named 'inspect_ai'\" >&2; exit 1",
    )
    with pytest.raises(ConfigError, match=r"has no Inspect .*inspect_ai.*pip install inspect-ai"):
        interpreter(bare)
    with pytest.raises(ConfigError, match="cannot be run"):
        interpreter(str(tmp_path / "absent"))


def test_an_inspect_that_dies_is_named_with_its_last_words(tmp_path: Path) -> None:
    dying = script(tmp_path / "python", "echo 'no more memory' >&2; exit 3")
    with pytest.raises(ModelError, match=r"code 3: no more memory .*inspect\.log"):
        measure("a", ModelPolicy(ScriptedEngine(solves)), [], python=dying, logs=tmp_path / "logs")


@pytest.mark.parametrize(
    ("tasks", "opponents", "message"),
    [
        ("gsm8k", "", "holds none of gsm8k.jsonl"),
        ("gsm9k", "", "gsm9k"),
        ("nim-v0", "mighty", "mighty"),
        (" , ", "", "name at least one"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_anything_is_loaded(
    tasks: str, opponents: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SRLError, match=message):
        planned(EvalOptions(tasks=tasks, opponents=opponents, data=tmp_path))


def test_a_run_is_measured_on_rows_that_it_did_not_train_on(tmp_path: Path) -> None:
    rows = [{"question": f"Question {n}?", "answer": "#### 4"} for n in range(60)]
    file = tmp_path / "gsm8k.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    game = f"name: a\nenv: math_duel-v0\nenv_options: {{players: 1, tasks: 'gsm8k:{file}'}}\n"
    (tmp_path / "recipe.yaml").write_text(f"{game}model: tiny\nlearners: [alice]\n")
    options = EvalOptions(tasks="gsm8k", data=tmp_path, run=tmp_path)

    assert [task["held_out"] for task in planned(options)] == [True]
    assert [task["held_out"] for task in planned(replace(options, rows="all"))] == [False]
    assert [task["held_out"] for task in planned(replace(options, run=None))] == [False]
    asked, _ = read_questions("gsm8k", file, held_out=True)
    duel = MathDuel(players=1, tasks=f"gsm8k:{file}")
    assert duel.task_report is not None
    eval_texts = [problem.text for problem in duel.task_report.splits["eval"]]
    assert sorted(question.asks for question in asked) == sorted(eval_texts)
    assert 0 < len(asked) < 30


@pytest.mark.slow
@pytest.mark.skipif(
    not HAS_INSPECT, reason=f"Inspect is not installed; name its Python with {PYTHON}"
)
def test_collections_and_games_are_measured_by_inspect_itself(tmp_path: Path) -> None:
    (tmp_path / "gsm8k.jsonl").write_text(
        '{"question": "Two and two?", "answer": "#### 4"}\n{"question": "Three?", "answer": "#### 3"}\n'
    )
    options = EvalOptions(tasks="gsm8k,nim-v0", data=tmp_path, seeds=2, opponents="middle")
    rows, game = measure(
        "scripted",
        ModelPolicy(ScriptedEngine(solves)),
        planned(options),
        python=interpreter(None),
        logs=tmp_path / "logs",
    )
    assert (rows.task, list(rows.samples.values()), rows.void) == ("gsm8k", [1.0, 0.0], 0)
    assert game.samples == {"0/0": -1.0, "0/1": -1.0, "1/0": -1.0, "1/1": -1.0}  # it never moves
