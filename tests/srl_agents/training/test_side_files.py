"""Files that a run adds to are cut where its checkpoint was written, and nowhere else."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.metrics import ConsoleView, JSONLines, Record, TensorBoard
from srl_agents.metrics.sinks import METRICS, TENSORBOARD, read_lines
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import MatchResult, MatchSpec
from srl_agents.rollouts.request_trace import REQUESTS
from srl_agents.rollouts.transcripts import TRANSCRIPTS
from srl_agents.training.faults.survival import read_events, write_event
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.loop import side_files
from srl_agents.training.loop.run import LeagueTraining


def record(update: int, reward: float = 0.5) -> Record:
    return Record(update=update, updates=9, run={}, learners={"alice": {"reward": reward}})


def cut(folder: Path, done: int = 0, known: dict[str, int] | None = None) -> list[str]:
    """Cut without matches; returns what was said."""
    said: list[str] = []
    with LeagueStore(folder / "league.db") as store:
        side_files.cut(folder, done, known or {}, store, said.append)
    return said


@given(
    before=st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b), max_size=4),
    after=st.binary(max_size=40),
)
def test_a_file_is_what_it_was_at_the_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], after: bytes
) -> None:
    folder = tmp_path_factory.mktemp("run")
    path, whole = folder / REQUESTS, b"".join(line + b"\n" for line in before)
    path.write_bytes(whole)
    known = side_files.lengths(folder)
    path.write_bytes(whole + after)
    assert cut(folder, 1, known) == []
    assert (path.read_bytes() if path.exists() else b"") == whole


def test_without_a_checkpoint_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / REQUESTS).write_text("{}\n")
    JSONLines(tmp_path / METRICS).write(record(1))
    cut(tmp_path)
    assert not (tmp_path / REQUESTS).exists()
    assert (tmp_path / METRICS).read_bytes() == b""


def test_a_file_that_is_too_short_stays_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / REQUESTS
    path.write_bytes(b"123456\n")
    (said,) = cut(tmp_path, 1, {REQUESTS: 10})
    assert said.startswith(f"{path} has 7 bytes of the 10")
    assert path.read_bytes() == b"123456\n"


def test_lines_of_later_updates_go(tmp_path: Path) -> None:
    path = tmp_path / METRICS
    sink = JSONLines(path)
    for update in (1, 2, 3):
        sink.write(record(update))
    before = path.read_bytes().splitlines(keepends=True)
    with path.open("a") as file:
        file.write('{"update": 4, "upd')  # a crash in the middle of a line
    cut(tmp_path, 2)
    assert path.read_bytes() == b"".join(before[:2])
    JSONLines(path).write(record(3, reward=0.7))
    assert [line["update"] for line in read_lines(path)] == [1, 2, 3]


def test_damaged_lines_are_named_once_and_later_ones_are_kept(tmp_path: Path) -> None:
    path = tmp_path / METRICS
    sink = JSONLines(path)
    for update in (1, 2, 3, 4, 5):
        sink.write(record(update))
    lines = path.read_text().splitlines()
    lines[1], lines[3] = lines[1].replace(":", ";", 1), '["update", 4]'
    path.write_text("\n".join(lines) + '\n{"update": 6, "upd')
    with pytest.warns(UserWarning, match=r"metrics\.jsonl is damaged: left out lines 2, 4"):
        cut(tmp_path, 5)
    JSONLines(path).write(record(6))
    assert [line["update"] for line in read_lines(path)] == [1, 3, 5, 6]  # and no second warning


def test_tensorboard_reads_each_point_once(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    first = TensorBoard(tmp_path / TENSORBOARD)
    for update in (1, 2, 3):
        first.write(record(update, reward=float(update)))
        if update == 2:
            known = side_files.lengths(tmp_path)
    first.close()
    cut(tmp_path, 2, known)
    killed = TensorBoard(tmp_path / TENSORBOARD)
    killed.write(record(3, reward=-1.0))
    killed.close()
    cut(tmp_path, 2, known)
    again = TensorBoard(tmp_path / TENSORBOARD)
    again.write(record(3, reward=30.0))
    again.close()
    events = accumulator.EventAccumulator(str(tmp_path / TENSORBOARD))
    events.Reload()
    # files of one second are read by a number in their names, of which 10 comes before 9
    points = sorted((event.step, event.value) for event in events.Scalars("alice/reward/mean"))
    assert points == [(1, 1.0), (2, 2.0), (3, 30.0)]


def test_transcripts_are_those_of_the_matches_in_the_store(tmp_path: Path) -> None:
    specs = [
        MatchSpec(env_id="nim-v0", seed=n, split="eval", seats=("a", "b"), schedule=FINAL, number=n)
        for n in range(3)
    ]
    played = [
        (
            spec,
            MatchResult(
                match_id=spec.match_id,
                outcomes=(1.0, -1.0),
                rewards=(1.0, -1.0),
                termination="ok",
                turns=2,
            ),
        )
        for spec in specs
    ]
    with LeagueStore(tmp_path / "league.db") as store:
        for name in "ab":
            store.add_agent(
                AgentVersion(agent_id=name, lineage=name, role="anchor", step=0, spec={})
            )
        store.report_many(played[:2])
    names = [spec.match_id for spec in (specs[2], specs[0], specs[1], specs[0])]
    lines = [json.dumps({"match_id": name, "n": n}) + "\n" for n, name in enumerate(names)]
    (tmp_path / TRANSCRIPTS).write_text("".join(lines) + '{"match')
    cut(tmp_path, 9)
    assert (tmp_path / TRANSCRIPTS).read_text() == "".join(lines[1:3])


def test_an_update_that_is_made_again_writes_no_fault_twice(tmp_path: Path) -> None:
    finding = Finding(fault="kl_blown_up", message="kl 11", learner="alice")
    for policy in ("go_on", "go_on", "stop", "stop"):
        write_event(tmp_path, 3, finding, policy)
    write_event(tmp_path, 4, finding, "go_on")
    assert [(e["update"], e["policy"]) for e in read_events(tmp_path)] == [
        (3, "go_on"),
        (3, "stop"),
        (3, "stop"),
        (4, "go_on"),
    ]


RECIPE = """
name: grows
model: tiny
env: nim-v0
updates: 3
learners: [alice]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 2, max_new_tokens: 4, trace: 16}
training: {learning_rate: 0.01}
evaluation: {every: 1, pairs: 1, final_pairs: 1, bots: [random]}
survival: {allow_nothing_learned: true}
snapshot_every: 1
checkpoint_every: 2
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", ["", pytest.param("asynchronous: {ahead: 1}\n", marks=pytest.mark.nightly)]
)
def test_every_file_of_a_run_that_grows_has_a_rule(tmp_path: Path, more: str) -> None:
    """A file that is written once, or anew each time, needs none."""
    path, run = tmp_path / "recipe.yaml", tmp_path / "run"
    path.write_text(RECIPE + more)
    seen: dict[str, bytes] = {}
    grown: set[str] = set()

    def look() -> None:
        for file in run.rglob("*"):
            name = str(file.relative_to(run))
            if not file.is_file() or name.startswith(("checkpoints/", "snapshots/")):
                continue
            now, before = file.read_bytes(), seen.get(name)
            if before is not None and len(now) > len(before) and now.startswith(before):
                grown.add(name)
            seen[name] = now

    class Looking(ConsoleView):
        def write(self, record: Record) -> None:
            look()

    recipe = load(LeagueRecipe, path)
    with Looking("run", recipe.updates, Console(quiet=True)) as view:
        training = LeagueTraining(recipe, run, view)
        try:
            training.run()
        finally:
            training.close()
    look()
    ruled = (
        *side_files.BY_LENGTH,
        *side_files.BY_UPDATE,
        *side_files.BY_MATCH,
        *side_files.NEVER_CUT,
    )
    assert {METRICS, REQUESTS} <= grown
    assert [n for n in sorted(grown) if not any(fnmatch(n, rule) for rule in ruled)] == []
