"""A checkpoint exists whole or not at all."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents import checkpoints
from srl_envs.errors import CheckpointError, ConfigError

TENSORS = {
    "alice.adapter": {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(0)},
    "alice.optimizer": {"0/state1": torch.tensor([1, 255], dtype=torch.uint8)},
    "bob.optimizer": {},
}
STATE: dict[str, Any] = {"learners": {"alice": {"version": 3, "rate": 0.1}}, "rows": [1, None]}


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path / "run", 12, TENSORS, STATE)
    assert checkpoints.latest(tmp_path / "run") == path
    found = checkpoints.load(path)
    assert found.step == 12
    assert found.state == STATE
    assert found.tensors.keys() == TENSORS.keys()
    for name, group in TENSORS.items():
        assert found.tensors[name].keys() == group.keys()
        assert all(torch.equal(found.tensors[name][k], t) for k, t in group.items())
        assert all(found.tensors[name][k].dtype == t.dtype for k, t in group.items())


def test_nothing_in_a_checkpoint_is_pickled(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, 1, TENSORS, STATE)
    assert {p.suffix for p in path.iterdir()} == {".safetensors", ".json"}


def test_the_newest_are_kept_and_numbers_sort_as_numbers(tmp_path: Path) -> None:
    for step in (9, 10, 100, 99999999, 100000000):
        checkpoints.save(tmp_path, step, {}, {"step": step}, keep=2)
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert kept == ["step-100000000", "step-99999999"]
    found = checkpoints.latest(tmp_path)
    assert found is not None
    assert checkpoints.load(found).step == 100000000


def test_the_best_are_kept_besides_the_newest(tmp_path: Path) -> None:
    scores = {1: 0.2, 2: 0.7, 3: None, 4: 0.7, 5: -1.0, 6: 0.1}
    for step, score in scores.items():
        checkpoints.save(tmp_path, step, {}, {"step": step}, keep=1, score=score, keep_best=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000004", "step-00000006"]
    assert checkpoints.best(tmp_path) == tmp_path / "step-00000004"
    assert checkpoints.latest(tmp_path) == tmp_path / "step-00000006"
    (tmp_path / "step-00000004/state.json").write_text("{}")
    with pytest.warns(UserWarning, match="damaged.*next best"):
        assert checkpoints.best(tmp_path) == tmp_path / "step-00000006"


def test_without_scores_there_is_no_best(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, TENSORS, STATE, keep_best=3)
    assert checkpoints.best(tmp_path) is None
    with pytest.raises(ConfigError, match="score=nan"):
        checkpoints.save(tmp_path, 2, TENSORS, STATE, score=float("nan"))


def test_no_checkpoint_yet(tmp_path: Path) -> None:
    assert checkpoints.latest(tmp_path / "absent") is None
    (tmp_path / ".tmp-step-00000001").mkdir()
    assert checkpoints.latest(tmp_path) is None


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "manifest", "future"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path: Path, damage: str) -> None:
    good = checkpoints.save(tmp_path, 1, TENSORS, STATE)
    bad = checkpoints.save(tmp_path, 2, TENSORS, STATE)
    file = bad / "alice.adapter.safetensors"
    if damage == "flip":
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(bytes(content))
    elif damage == "truncate":
        file.write_bytes(file.read_bytes()[:20])
    elif damage == "remove":
        file.unlink()
    elif damage == "manifest":
        (bad / "manifest.json").write_text("{")
    else:
        manifest = json.loads((bad / "manifest.json").read_text())
        (bad / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.warns(UserWarning, match="Going back to step-00000001"):
        assert checkpoints.latest(tmp_path) == good
    with pytest.raises(CheckpointError):
        checkpoints.load(bad)
    again = checkpoints.save(tmp_path, 2, TENSORS, STATE)
    assert checkpoints.latest(tmp_path) == again


def test_if_all_are_damaged_the_run_does_not_start_over(tmp_path: Path) -> None:
    (checkpoints.save(tmp_path, 1, TENSORS, STATE) / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="is whole"):
        checkpoints.latest(tmp_path)


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keep=0"):
        checkpoints.save(tmp_path, 1, {}, {}, keep=0)
    with pytest.raises(ConfigError, match="tensor group"):
        checkpoints.save(tmp_path, 1, {"../alice": {}}, {})
    with pytest.raises(ValueError, match="JSON compliant"):
        checkpoints.save(tmp_path, 1, {}, {"loss": float("nan")})
    assert checkpoints.latest(tmp_path) is None


KILLER = """
import os, signal, sys, time
from pathlib import Path

import torch

from srl_agents import checkpoints

folder = Path(sys.argv[1])


def write_forever(report: int) -> None:
    found = checkpoints.latest(folder)
    step = checkpoints.load(found).step if found else 0
    while True:
        step += 1
        tensors = {f"g{i}": {"x": torch.full((20000,), float(step))} for i in range(4)}
        checkpoints.save(folder, step, tensors, {"step": step}, keep=2)
        os.write(report, b".")


last = 0
for kill in range(25):
    saved, report = os.pipe()
    child = os.fork()
    if not child:
        write_forever(report)
    os.read(saved, 1)  # one save at least, then any moment of a later one
    time.sleep(0.0007 * kill)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(saved)
    os.close(report)
    found = checkpoints.latest(folder)  # its warning about damage is an error here
    loaded = checkpoints.load(found) if found else None
    step = loaded.step if loaded else 0
    if step < last:
        raise SystemExit(f"went back from {last} to {step}")
    for group in loaded.tensors.values() if loaded else ():
        if not torch.equal(group["x"], torch.full((20000,), float(step))):
            raise SystemExit(f"checkpoint {step} is mixed")
    last = step
print(last, len(list(folder.glob(".tmp-*"))))
"""


@pytest.mark.slow
def test_kill_9_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """25 writers are killed at 25 moments; the newest checkpoint always loads, none goes back."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", KILLER, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    last, leftovers = map(int, done.stdout.split())
    assert last >= 25
    assert leftovers <= 2
    checkpoints.save(tmp_path, last + 1, {}, {}, keep=1)
    assert [p.name for p in tmp_path.iterdir()] == [f"step-{last + 1:08d}"]


@pytest.mark.filterwarnings("ignore:.*Going back")
def test_no_changed_byte_of_a_manifest_is_believed(tmp_path: Path) -> None:
    """It holds the hashes of all else, and the step, the score and the groups that are loaded."""
    for step in (1, 2):
        checkpoints.save(tmp_path, step, TENSORS, STATE, keep=2, score=step / 8)
    manifest = tmp_path / "step-00000002/manifest.json"
    good = manifest.read_bytes()
    for place in range(len(good)):
        changed = bytearray(good)
        changed[place] ^= 1
        manifest.write_bytes(changed)
        path = checkpoints.latest(tmp_path)
        assert path is not None
        found = checkpoints.load(path)
        assert (found.step, found.score) in ((1, 0.125), (2, 0.25)), bytes(changed)
        assert found.tensors.keys() == TENSORS.keys()


def test_a_checkpoint_from_before_there_were_seals_is_read(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, 1, TENSORS, STATE)
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["seal"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    assert checkpoints.load(path).state == STATE


def test_a_stray_file_among_checkpoints_stops_no_save(tmp_path: Path) -> None:
    (tmp_path / ".tmp-stray").write_text("")
    checkpoints.save(tmp_path, 1, TENSORS, STATE)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
