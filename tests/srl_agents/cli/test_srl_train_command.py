"""`srl train` and `srl league`: a mistake is one line that names the cure, before anything is loaded."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from srl_agents.cli.main import main
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.metrics import ConsoleView
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import MatchResult, MatchSpec
from srl_agents.training.folder.layout import write_recipe
from srl_agents.training.start.plan_target import target_for
from srl_envs.errors import ConfigError, FaultError, ModelError, SRLError, StoreError

GOOD = """
name: small
model: tiny
env: connect_four-v0
env_options: {rows: 5, cols: 5, k: 3}
"""


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if not line.startswith("plan: ")]
    assert len(lines) == 1, captured.err
    return lines[0]


def recipe(tmp_path: Path, text: str) -> str:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("env: connect_for-v0", ["connect_four-v0"]),
        ("env_options: {rows: 3}", ["rows=3", "4 to 9"]),
        ("env_options: {row: 5}", ["row", "rows"]),
        ("updats: 3", ["updats", "Did you mean 'updates'?"]),
        ("updates: 0", ["updates=0", "1 or more"]),
        ("learners: [alice, alice]", ["twice"]),
        ("learners: [tiny]", ["tiny", "model's name"]),
        ("rollout: {group_size: 1}", ["group_size=1", "2 or more"]),
        ("rollout: {temperature: 0}", ["temperature=0", "More than 0".lower()]),
        ("opponents: {bots: {midle: 1}}", ["midle", "middle"]),
        ("opponents: {bots: {held_out: 1}}", ["held_out", "rating only"]),
        ("opponents: {mirror: 0, live: 0, past: 0}", ["all weights are 0"]),
        ("evaluation: {bots: [stron]}", ["stron", "strong"]),
        ("training: {optimizer: adam8}", ["optimizer", "adamw_8bit"]),
        ("training: {learning_rate: -1}", ["learning_rate", "more than 0"]),
        ("model: tinny", ["tinny", "Did you mean 'tiny'?"]),
        ("device: cudda", ["cudda", "'cpu'"]),
        ("learners: [anchor]", ["anchor", "default"]),
        ("lora: {alpha: .inf}", ["alpha", "finite"]),
        ("evaluation: {bots: [random, random]}", ["random", "twice"]),
        ("seed: 1\nseed: 2", ["seed", "twice"]),
        ("dtype: float16", ["dtype", "bfloat16"]),
        ("name: a/b", ["name", "folder"]),
    ],
)
def test_a_wrong_recipe_is_refused_and_nothing_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, parts: list[str]
) -> None:
    key = line.partition(":")[0]
    kept = [row for row in GOOD.splitlines() if not row.startswith(f"{key}:")]
    path = recipe(tmp_path, "\n".join([*kept, line]) + "\n")
    message = refused(capsys, "train", path, "--out", str(tmp_path / "run"))
    assert message.startswith("srl train: ")
    for part in parts:
        assert part in message
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Did you mean 'quickstart-tiny'?" in refused(capsys, "train", "quickstart-tyni")


def test_a_folder_without_a_run_cannot_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "holds no run: recipe.yaml is missing" in refused(capsys, "train", str(tmp_path))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_here_is_refused_by_the_plan() -> None:
    with pytest.raises(ConfigError, match="'cuda': this machine has no CUDA device"):
        target_for("cuda")


def test_a_folder_with_something_else_is_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    message = refused(capsys, "train", recipe(tmp_path, GOOD), "--out", str(tmp_path / "run"))
    assert "not empty" in message
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda run: Path("/dev/full").write_text("x"), "{run}: No space left on device."),
        (lambda run: (run / "adapters/alice").read_bytes(), "{run}/adapters/alice: No such file"),
        (
            lambda run: run.parent.joinpath("recipe.yaml/x").mkdir(),
            "/recipe.yaml/x: Not a directory.",
        ),
        (
            lambda run: save_file({"a": torch.zeros(1)}, run / "no/x"),
            "{run}: Error while serializing",
        ),
    ],
    ids=["full", "missing", "no folder", "safetensors"],
)
def test_what_stops_a_run_on_disk_is_told_with_path_and_cause(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Path], object],
    said: str,
) -> None:
    """A missing file is reported as missing, not as unwritable, and a full disk has no file's name."""

    def stopped(_recipe: object, folder: Path, *_: object, **__: object) -> None:
        work(folder)

    monkeypatch.setattr("srl_agents.training.supervision.train", stopped)
    run = tmp_path / "run"
    message = refused(capsys, "train", recipe(tmp_path, GOOD), "--out", str(run))
    assert message.startswith("srl train: ")
    assert said.format(run=run) in message
    assert message.endswith("Mend that. Nothing is kept; the same command begins again.")


@pytest.mark.parametrize(
    ("error", "left", "said"),
    [
        (StoreError("a.db: locked."), (), "a.db: locked. To begin again: srl train {run}"),
        (ModelError("gone."), ("step-00000002",), "gone. To go on: srl train {run}"),
        (FaultError("hot.", fault="nan"), ("step-00000002",), "hot. To go on: srl train {run}"),
        (ConfigError("set a."), ("step-00000002",), "set a."),
    ],
)
def test_every_error_that_ends_a_run_names_the_command_that_goes_on(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: SRLError,
    left: tuple[str, ...],
    said: str,
) -> None:
    def stopped(read: LeagueRecipe, folder: Path, *_: object, **__: object) -> None:
        (folder / "checkpoints").mkdir(parents=True)
        for name in left:
            (folder / "checkpoints" / name).mkdir()
        write_recipe(read, folder)
        raise error

    monkeypatch.setattr("srl_agents.training.supervision.train", stopped)
    run = tmp_path / "run"
    code = main(["train", recipe(tmp_path, GOOD), "--out", str(run)])
    assert code == (3 if isinstance(error, FaultError) else 2)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"srl train: {said.format(run=run)}"


def test_last_words_of_a_process_that_hangs_name_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ConsoleView("a run", 3, advice=lambda: "To go on: srl train RUN").say_last("it hangs.")
    assert capsys.readouterr().err == "srl train: it hangs. To go on: srl train RUN\n"


def test_last_words_give_a_terminal_its_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    console = Console(file=io.StringIO(), force_terminal=True)
    ConsoleView("a run", 3, console).say_last("it hangs.")
    assert terminal.getvalue() == "\x1b[?25hsrl train: it hangs.\n"


def test_a_wrong_recipe_fails_before_torch_is_imported(tmp_path: Path) -> None:
    path = recipe(tmp_path, GOOD + "updats: 3\n")
    code = (
        "import sys; from srl_agents.cli.main import main; "
        f"code = main(['train', {path!r}]); print(code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]


def make_store(path: Path, seeds: int = 40) -> None:
    with LeagueStore(path) as store:
        for name, parent, step in (("tiny", None, 0), ("alice@3", "tiny", 3)):
            store.add_agent(
                AgentVersion(
                    agent_id=name, lineage=name.partition("@")[0], parent=parent,
                    role="main" if step else "anchor", step=step,
                )
            )  # fmt: skip
        for seed in range(seeds):
            for seats in (("alice@3", "tiny"), ("tiny", "alice@3")):
                spec = MatchSpec(
                    env_id="connect_four-v0", seed=seed, split="eval", seats=seats,
                    cluster=f"eval/{seed}", schedule="eval/final",
                )  # fmt: skip
                won = 1.0 if seed % 4 else -1.0
                outcomes = (won, -won) if seats[0] == "alice@3" else (-won, won)
                store.report(
                    spec,
                    MatchResult(
                        match_id=spec.match_id,
                        outcomes=outcomes,
                        rewards=outcomes,
                        termination="ok",
                    ),
                )


def test_league_status_shows_who_got_better(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_store(tmp_path / "league.db")
    assert main(["league", "status", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "alice@3 against tiny: score difference +0.500" in shown
    assert "better than its start" in shown
    assert main(["league", "status", str(tmp_path), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)[0]
    gain = status["gains"]["alice@3"]
    assert gain["estimate"] == pytest.approx(0.5)
    assert 0 < gain["low"] < 0.5 < gain["high"]
    assert gain["seeds"] == 40
    assert [row["agent"] for row in status["ratings"]] == ["alice@3", "tiny"]


def test_what_one_seed_cannot_tell_is_null(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_store(tmp_path / "league.db", seeds=1)
    assert main(["league", "status", str(tmp_path), "--json", "--diagnostics"]) == 0
    (status,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    ends = {row["agent"]: (row["low"], row["high"]) for row in status["ratings"]}
    assert ends == {"alice@3": (None, None), "tiny": (0.0, 0.0)}  # the anchor is the zero
    gain = status["gains"]["alice@3"]
    assert (gain["low"], gain["high"], gain["seeds"]) == (None, None, 1)


def test_league_status_without_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no league store" in refused(capsys, "league", "status", str(tmp_path))
    assert "status" in refused(capsys, "league", "statsu")


def test_league_status_before_any_evaluation(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with LeagueStore(tmp_path / "league.db"):
        pass
    assert "no evaluation matches" in refused(capsys, "league", "status", str(tmp_path))
