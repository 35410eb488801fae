"""`srl_agents.Learner` and `srl_agents.credit`: a training loop of one's own."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import srl_agents
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.settings import CreditSettings
from srl_agents.records import Episode
from srl_envs.errors import ConfigError, ModelError, UnknownEnvironmentError, UnknownPolicyError

DOCS = Path(__file__).parents[3] / "docs"
GUIDE, PACKAGE_README = DOCS / "guides/from_python.md", DOCS / "package_readme.md"
HEAVY = ("torch", "transformers", "trl", "peft", "tyro", "rich", "gymnasium")


def code_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def learner() -> Iterator[srl_agents.Learner]:
    with srl_agents.Learner.load("tiny", max_new_tokens=8, seed=3) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def episodes(learner: srl_agents.Learner) -> list[Episode]:
    return learner.play("nim-v0", opponents={1: "middle"}, start_states=2, group_size=3)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, srl_agents; "
        f"print([m for m in {HEAVY!r} if m in sys.modules], sorted(srl_agents.__all__) == "
        "[n for n in dir(srl_agents) if n in srl_agents.__all__])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True\n"


def test_every_public_name_is_there_also_after_its_package_was_imported() -> None:
    for name in srl_agents.__all__:
        assert callable(getattr(srl_agents, name)), name
    returns = importlib.import_module("srl_agents.credit.returns")
    assert callable(srl_agents.credit)
    assert getattr(srl_agents.credit, "returns") is returns  # noqa: B009 - a function to type checkers
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = srl_agents.trian


@pytest.mark.slow
def test_the_loop_of_the_guide_and_the_packages_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    loop = code_of(GUIDE)[0]
    assert loop in code_of(PACKAGE_README)
    assert len(loop.splitlines()) <= 30
    exec(compile(loop, str(GUIDE), "exec"), {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2", "3"]
    assert (tmp_path / "adapter/adapter_model.safetensors").is_file()


def test_a_match_is_left_at_a_decision_and_credited_with_its_branches() -> None:
    with srl_agents.Learner.load("tiny", max_new_tokens=8, seed=5) as learner:
        matches = learner.play("nim-v0", opponents={1: "middle"}, start_states=8, group_size=1)
        branches: list[Episode] = []
        for match in matches:
            first = match.trajectories[0].turns[0].turn_index
            made = learner.fork(match, first, alternatives=3)
            assert [e.spec.branch and e.spec.branch.alternative for e in made] == [1, 2]
            assert {e.spec.branch and e.spec.branch.parent for e in made} == {match.spec.match_id}
            assert all(
                e.trajectories[0].turns[0].observation == match.trajectories[0].turns[0].observation
                for e in made
            )
            branches += made
        again = learner.fork(
            matches[0], matches[0].trajectories[0].turns[0].turn_index, alternatives=3
        )
        assert again == branches[:2]
        rows = srl_agents.credit([*matches, *branches], estimator="c3", level="turn")
        assert rows.rows
        found = {id(turn): advantage for turn, advantage in rows.rows}
        judged = 0
        for number, match in enumerate(matches):
            paid = [
                e.trajectories[0].total_reward
                for e in (match, *branches[2 * number : 2 * number + 2])
            ]
            advantage = found.get(id(match.trajectories[0].turns[0]))
            if advantage is not None:
                judged += 1
                assert advantage == pytest.approx(paid[0] - (paid[1] + paid[2]) / 2)
        assert judged
        nested = learner.fork(branches[0], branches[0].trajectories[0].turns[-1].turn_index)
        assert all(
            e.spec.branch and e.spec.branch.parent == branches[0].spec.match_id for e in nested
        )
        with pytest.raises(ConfigError, match="has no decision 99: it ended after"):
            learner.fork(matches[0], 99)
        with pytest.raises(ConfigError, match="alternatives=1: use 2 or more"):
            learner.fork(matches[0], first, alternatives=1)
        lost = replace(matches[0], termination="void", fault="SandboxError: gone")
        with pytest.raises(ConfigError, match="was lost"):
            learner.fork(lost, first)
        assert learner.update(rows)["stepped"] == 1
        with pytest.raises(
            ConfigError, match=r"fork: learner@0-\w+ played this match, and learner@1-"
        ):
            learner.fork(matches[0], first)


def test_seats_without_an_opponent_are_the_learners(
    learner: srl_agents.Learner, episodes: list[Episode]
) -> None:
    assert {e.spec.seats for e in episodes} == {(str(learner.version), "bot:middle")}
    assert {e.spec.learner_seats for e in episodes} == {(0,)}
    groups = {e.spec.number: e.spec.seed for e in episodes}
    assert len(set(groups.values())) == len(groups) == 2
    mirrored = learner.play("nim-v0", start_states=1, group_size=2)
    assert mirrored[0].spec.learner_seats == (0, 1)
    assert mirrored[0].spec.number not in groups


def test_credit_is_that_of_the_assigner(
    learner: srl_agents.Learner, episodes: list[Episode]
) -> None:
    credited = srl_agents.credit(episodes, estimator="leave_one_out", level="turn")
    settings = CreditSettings(estimator="leave_one_out", level="turn")
    rows, metrics = CreditAssigner(settings).assign(episodes, "learner", str(learner.version))
    assert list(credited.rows) == rows
    assert credited.metrics == metrics
    assert rows


@pytest.mark.slow
def test_an_update_moves_the_weights_and_an_agent_keeps_its_own() -> None:
    with srl_agents.Learner.load("tiny", max_new_tokens=8, micro_batch_rows=32) as learner:
        before, first = learner.agent(seed=1), learner.version
        text = "Heaps: 3 4 5. Reply with <action>HEAP TAKE</action>."
        said = before(text)
        played = learner.play("nim-v0", opponents={0: "random"}, start_states=2, group_size=4)
        metrics = learner.update(srl_agents.credit(played))
        assert metrics["stepped"] == 1
        assert {"loss", "grad_norm", "reward", "flat_groups"} <= metrics.keys()
        assert (learner.version.number, first.number) == (1, 0)
        assert learner.version.digest != first.digest
        kept = learner.update([])
        assert kept == {"rows": 0.0, "stepped": 0.0}
        assert learner.version.number == 1
        again = srl_agents.Learner.load("tiny", max_new_tokens=8)
        with again:
            assert again.agent(seed=1)(text) == said
        assert isinstance(before(text), str)
    with pytest.raises(ModelError, match="is closed"):
        learner.play("nim-v0")


def test_flat_groups_teach_nothing_and_metrics_say_so(
    learner: srl_agents.Learner, episodes: list[Episode]
) -> None:
    flat = [e for e in episodes if e.spec.attempt == 0]  # groups of one attempt each
    metrics = learner.update(srl_agents.credit(flat))
    assert (metrics["rows"], metrics["stepped"], metrics["flat_groups"]) == (0, 0, 1)


@pytest.mark.slow
def test_a_saved_adapter_goes_on_and_plays(learner: srl_agents.Learner, tmp_path: Path) -> None:
    folder = learner.save(tmp_path / "saved")
    played = learner.play("nim-v0", opponents={1: f"tiny+{folder}"}, start_states=1, group_size=2)
    assert played[0].valid
    assert played[0].spec.seats[1] == f"tiny+{folder}"
    with srl_agents.Learner.load("tiny", adapter=folder) as other:
        assert other.version.digest == learner.version.digest


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"env": "nimm-v0"}, UnknownEnvironmentError, "nim-v0"),
        ({"env": "nim-v0", "opponents": {1: "midle"}}, UnknownPolicyError, "'middle'"),
        (
            {"env": "nim-v0", "opponents": {2: "middle"}},
            ConfigError,
            "seat 2: nim-v0 has seats 0 to 1",
        ),
        ({"env": "nim-v0", "opponents": {0: "middle", 1: "random"}}, ConfigError, "leave one"),
        ({"env": "nim-v0", "opponents": {1: "human"}}, ConfigError, "human"),
        ({"env": "nim-v0", "group_size": 0}, ConfigError, "group_size=0: use 1 or more"),
        ({"env": "nim-v0", "env_options": {"heap": 3}}, ConfigError, "heap"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(
    learner: srl_agents.Learner, arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        learner.play(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": "tinny"}, "Did you mean 'tiny'"),
        ({"model": "tiny", "lr": 1.0}, "learning_rate"),
        ({"model": "tiny", "learning_rate": -1.0}, "learning_rate"),
        ({"model": "tiny", "name": "a b"}, "identifier"),
        ({"model": "tiny", "temperature": 0}, "temperature=0"),
    ],
)
def test_a_learner_with_impossible_settings_is_refused(
    arguments: dict[str, object], words: str
) -> None:
    with pytest.raises((ConfigError, UnknownPolicyError), match=words):
        srl_agents.Learner.load(**arguments)  # type: ignore[arg-type]


def test_credit_refuses_by_name(episodes: list[Episode]) -> None:
    with pytest.raises(ConfigError, match="grup"):
        srl_agents.credit(episodes, estimator="grup")
    with pytest.raises(ConfigError, match="remembers earlier updates"):
        srl_agents.credit(episodes, estimator="role_baseline")
    with pytest.raises(ConfigError, match="without a learning seat"):
        srl_agents.credit([])
    with pytest.raises(ConfigError, match="no learner 'bob' in the episodes, only learner"):
        srl_agents.credit(episodes, learner="bob")
    other = replace(
        episodes[0], spec=replace(episodes[0].spec, seats=("learner@9-" + "0" * 16, "x"))
    )
    with pytest.raises(ConfigError, match="once per version"):
        srl_agents.credit([*episodes, other])
    memory = CreditAssigner(CreditSettings(estimator="role_baseline"))
    assert srl_agents.credit(episodes, assigner=memory).rows
    with pytest.raises(ConfigError, match="settings of its own"):
        srl_agents.credit(episodes, assigner=memory, level="turn")
