"""The queue of an experiment: what it runs, and that a killed sweep keeps what it has and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.experiments import announced, measures, rows, sweep, transfer
from srl_agents import Run

SMALL = """# Small

```yaml
baseline: low
stop: {tokens: 600}
seeds: [0, 1]
cpu_hours: 1
arms:
  low: {}
  high: {training: {learning_rate: 1.0e-2}}
arenas:
  nim:
    model: tiny
    measure: points
    recipe:
      env: nim-v0
      updates: 50
      learners: [alice]
      lora: {rank: 4, alpha: 8}
      rollout: {start_states: 2, group_size: 4, max_new_tokens: 8}
      evaluation: {every: 0, final_pairs: 1, bots: [random]}
      snapshot_every: 50
      checkpoint_every: 1
```
"""
PROGRAM = """
import sys
from pathlib import Path
from benchmarks.experiments import announced, measures, sweep
measures.LOOK = measures.FINAL = measures.CHOICE = range(2)
page = announced.parse("small", Path(sys.argv[1]).read_text())
keys = sweep.wanted(page, ["nim/low"], [0, 1])
sys.exit(len(sweep.work(page, keys, Path("runs"), Path("results"))))
"""


def test_patterns_choose_arms_and_pilots_take_other_seeds() -> None:
    page = announced.parse("small", SMALL)
    assert [str(key) for key in sweep.wanted(page, ["*/high"], [900])] == ["nim/high/900"]
    assert len(sweep.wanted(page, ["*"], [0, 1])) == 4


def test_rows_of_a_sweep_change_no_code_of_its_clone(tmp_path: Path) -> None:
    results = tmp_path / rows.RESULTS.relative_to(announced.ROOT) / "credit_by_forks.jsonl"
    results.parent.mkdir(parents=True)
    code = tmp_path / "code.py"
    for file in (results, code):
        file.write_text("1")
    user = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "-A"], [*user, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    clean = sweep.code_version(tmp_path)
    results.write_text("2")
    assert sweep.code_version(tmp_path) == clean != "unknown"
    code.write_text("2")
    assert sweep.code_version(tmp_path) == clean + rows.CHANGED


def start(folder: Path) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "page.md"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


@pytest.mark.slow
def test_a_killed_sweep_keeps_finished_runs_and_ends_like_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    ends = {}
    for name in ("whole", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "page.md").write_text(SMALL)
        if name == "killed":
            process = start(folder)
            _wait(folder / "runs/small/nim/low/seed1/metrics.jsonl", process)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert [row["seed"] for row in rows.load("small", folder / "results")] == [0]
        assert start(folder).wait() == 0
        found = rows.load("small", folder / "results")
        assert [rows.key_of(row).seed for row in found] == [0, 1]
        faults = rows.faults_of(announced.parse("small", SMALL), found)
        assert [one for one in faults if "code that no commit has" not in one] == []
        ends[name] = [
            (row["versions"], row["values"], row["tokens"], row["recipe"]) for row in found
        ]
    assert ends["killed"] == ends["whole"]


PAIR = """# A pair

```yaml
baseline: apart
stop: {tokens: 900}
seeds: [0, 1]
cpu_hours: 1
arms:
  apart: {}
arenas:
  nim:
    measure: own_outcome
    recipe:
      env: nim-v0
      updates: 50
      models:
        deep: {model: tiny, learners: [alice]}
        shallow: {model: tiny-shallow, learners: [bob]}
      lora: {rank: 4, alpha: 8}
      opponents: {mirror: 0, live: 0, past: 0, bots: {random: 1}}
      rollout: {start_states: 2, group_size: 4, max_new_tokens: 8}
      evaluation: {every: 0, final_pairs: 1, bots: [random]}
      snapshot_every: 1
      checkpoint_every: 1
```
"""


@pytest.mark.slow
def test_a_row_of_unlike_learners_has_the_last_version_and_the_end_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "LOOK", range(2))
    monkeypatch.setattr(measures, "FINAL", range(2))
    page = announced.parse("pair", PAIR)
    row = sweep.run_one(page, page.experiment.runs()[0], tmp_path)
    assert row is not None
    policies = Run.open(tmp_path / "pair/nim/apart/seed0").recipe.survival.policies
    assert {policies[fault] for fault in ("replies_refused", "gradient_exploded")} == {"go_on"}
    last = f"@{row['updates']}-"
    assert row["updates"] > 1
    assert [version.partition("@")[0] for version in row["versions"]] == ["alice", "bob"]
    assert all(last in version for version in row["versions"])
    assert len(set(row["model"].split("+"))) == 2
    values = row["values"]
    for name, mean in (("last", ("alice", "bob")), ("first", ("first_alice", "first_bob"))):
        assert values[name] == pytest.approx(sum(values[key] for key in mean) / 2, abs=2e-5)
    assert 0 < row["training_mib"] <= row["peak_mib"]


def _wait(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the second update of a run is written."""
    while not (path.is_file() and len(path.read_text().splitlines()) >= 2):
        assert process.poll() is None, "the sweep ended before it was killed"
        time.sleep(0.05)
    assert json.loads(path.read_text().splitlines()[0])["update"] == 1


GAME = """# A game

```yaml
baseline: short
stop: {tokens: 200}
seeds: [0, 1]
cpu_hours: 1
arms: {short: {}}
arenas:
  nim:
    model: tiny
    measure: transfer
    recipe:
      env: nim-v0
      updates: 50
      learners: [alice]
      lora: {rank: 4, alpha: 8}
      warm_start: {bots: [random], episodes: 4, updates: 2}
      rollout: {start_states: 2, group_size: 4, max_new_tokens: 8}
      evaluation: {every: 0, final_pairs: 1, bots: [random]}
      snapshot_every: 1
      checkpoint_every: 1
```
"""


@pytest.mark.slow
def test_a_row_of_transfer_has_base_imitation_and_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "LOOK", range(1))
    monkeypatch.setattr(transfer, "ASKED", 3)
    monkeypatch.setattr(transfer, "CHOSEN_ON", 1)
    lines = [
        {
            "question": f"Ann has {n} nuts and eats one. How many are left?",
            "answer": f"#### {n - 1}",
        }
        for n in range(11, 31)
    ]
    (tmp_path / "gsm8k.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setenv(transfer.DATA, str(tmp_path))
    page = announced.parse("game", GAME)
    row = sweep.run_one(page, page.experiment.runs()[0], tmp_path)
    assert row is not None
    margins = [row["values"][name] for name in ("base", "first", "last")]
    assert len(set(margins)) == 3
    assert {f"gsm8k_{name}" for name in ("base", "first", "last")} <= row["values"].keys()
    assert all(0 <= row["values"][f"game_{name}"] <= 1 for name in ("base", "first", "last"))
    assert row["curve"][-1] == [row["updates"], row["values"]["last"]]
