"""A branch gives its parent's replies again up to a decision, and is a match like any other from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.league.agents import AgentVersion
from srl_agents.league.store.history import LeagueStore
from srl_agents.models.base_model import BaseModel
from srl_agents.models.prompt import MemorySettings, Prompt
from srl_agents.models.sources.random_model import build
from srl_agents.records import Episode, MatchSpec, Turn
from srl_agents.rollouts import Order, Rollouts
from srl_agents.rollouts.branches import branch_spec
from srl_agents.rollouts.transcripts import TranscriptLog, read_results, read_transcripts
from srl_envs import list_envs, make, replay
from srl_envs.errors import ConfigError, TranscriptError
from srl_envs.registry import spec as env_spec

SIMULTANEOUS = "iterated_dilemma-v0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("model"), context=4096)


@pytest.fixture(scope="module")
def table(folder: Path) -> Mapping[str, Policy]:
    """Two names of one model, one of which shows its earlier turns, and bots."""
    sampling = SamplingSettings(max_new_tokens=4)
    plain = ModelPolicy(TransformersEngine(BaseModel.load(folder), sampling))
    memory = Prompt(memory=MemorySettings(tokens=2000))
    with_memory = ModelPolicy(TransformersEngine(BaseModel.load(folder, prompt=memory), sampling))
    bots: dict[str, Policy] = {
        f"bot:{n}": ScriptedPolicy(n) for n in ("random", "middle", "strong")
    }
    return {"base": plain, "memory": with_memory, **bots}


@pytest.fixture
def rollouts(table: Mapping[str, Policy]) -> Iterator[Rollouts]:
    with Rollouts(table, root_seed=5) as playing:
        yield playing


def match(*seats: str, env: str, seed: int = 0) -> MatchSpec:
    return MatchSpec(
        env_id=env,
        seed=seed,
        split="train",
        seats=seats,
        learner_seats=(0,),
        cluster=f"train/{seed}",
    )


def turns_of(episode: Episode) -> list[tuple[int, Turn]]:
    """(seat, turn), in order."""
    rows = [(own.seat, turn) for own in episode.trajectories for turn in own.turns]
    return sorted(rows, key=lambda row: row[1].turn_index)


def fork(rollouts: Rollouts, parent: Episode, *specs: MatchSpec) -> list[Episode]:
    return rollouts.play(specs, parents={parent.spec.match_id: parent})


@pytest.mark.parametrize(
    "env_id",
    [
        pytest.param(name, marks=pytest.mark.slow) if env_spec(name).runs_programs else name
        for name in list_envs()
    ],
)
def test_bots_go_on_from_any_decision_as_they_did(rollouts: Rollouts, env_id: str) -> None:
    """Exact: same chances, same bots in the same state, so the branch is the parent again."""
    found = env_spec(env_id)
    bots = [f"bot:{name}" for name in ("random", "middle", "strong") if name in found.bots]
    (parent,) = rollouts.play([match(*(bots * 9)[: found.seats], env=env_id, seed=3)])
    turns = turns_of(parent)
    places = sorted({0, len(turns) // 2, len(turns) - 1})
    branches = fork(rollouts, parent, *(branch_spec(parent, k, alternative=1) for k in places))
    for place, branch in zip(places, branches, strict=True):
        assert branch.transcript_sha256 == parent.transcript_sha256
        assert [replace(t, inherited=False) for _, t in turns_of(branch)] == [t for _, t in turns]
        seat, decided = turns[place]
        kept = [t.step < decided.step or (t.step == decided.step and k != seat) for k, t in turns]
        assert [t.inherited for _, t in turns_of(branch)] == kept


@pytest.mark.parametrize("name", ["base", pytest.param("memory", marks=pytest.mark.slow)])
@pytest.mark.parametrize("order", ["exact", "free"])
def test_a_model_answers_anew_what_it_was_asked(
    table: Mapping[str, Policy], name: str, order: Order
) -> None:
    with Rollouts(table, root_seed=5, order=order) as rollouts:
        parent, *_ = rollouts.play([match(name, "bot:middle", env="nim-v0", seed=1)])
        own = [turn for seat, turn in turns_of(parent) if seat == 0]
        decided = own[1]
        specs = [branch_spec(parent, decided.turn_index, alternative=k) for k in (1, 2, 3)]
        branches = fork(rollouts, parent, *specs)
        again = fork(rollouts, parent, *specs[::-1])[::-1]
    texts = [[turn.reply for _, turn in turns_of(branch)] for branch in branches]
    assert [[turn.reply for _, turn in turns_of(branch)] for branch in again] == texts
    fresh = [branch.trajectories[0].turns[1] for branch in branches]
    assert all(turn.prompt_ids == decided.prompt_ids for turn in fresh)
    assert not any(turn.inherited for turn in fresh)
    assert len({turn.completion_ids for turn in (*fresh, decided)}) > 1
    for branch in branches:
        first = branch.trajectories[0].turns[0]
        assert first.inherited
        assert first.completion_ids == own[0].completion_ids
        counted = [len(t.completion_ids) for t in branch.trajectories[0].turns if not t.inherited]
        assert branch.result().tokens[0] == sum(counted)


def test_where_all_reply_at_once_one_answers_anew_or_all_do(rollouts: Rollouts) -> None:
    (parent,) = rollouts.play([match("base", "base", env=SIMULTANEOUS, seed=2)])
    turns = turns_of(parent)
    second = [(seat, turn) for seat, turn in turns if turn.step == 1]
    (seat, decided), (other, kept) = second
    one, joint = fork(
        rollouts,
        parent,
        branch_spec(parent, decided.turn_index, alternative=1),
        branch_spec(parent, decided.turn_index, alternative=1, joint=True),
    )
    assert one.trajectories[other].turns[1] == replace(
        kept, inherited=True, reward=one.trajectories[other].turns[1].reward,
        components=one.trajectories[other].turns[1].components,
    )  # fmt: skip
    assert not one.trajectories[seat].turns[1].inherited
    assert not any(joint.trajectories[k].turns[1].inherited for k in (0, 1))
    assert all(joint.trajectories[k].turns[0].inherited for k in (0, 1))
    with pytest.raises(ConfigError, match=r"not the first of its step; that is 2\."):
        branch_spec(parent, kept.turn_index, alternative=1, joint=True)


def test_a_branch_of_a_branch_keeps_what_both_kept(rollouts: Rollouts) -> None:
    (parent,) = rollouts.play([match("base", "bot:middle", env="nim-v0", seed=1)])
    child = fork(rollouts, parent, branch_spec(parent, 0, alternative=1))[0]
    last = turns_of(child)[-1][1].turn_index
    grandchild = fork(rollouts, child, branch_spec(child, last, alternative=1))[0]
    assert [t.reply for _, t in turns_of(grandchild)][:last] == [
        t.reply for _, t in turns_of(child)
    ][:last]
    assert all(t.inherited for _, t in turns_of(grandchild)[:last])


def test_other_policies_may_go_on(rollouts: Rollouts) -> None:
    (parent,) = rollouts.play([match("base", "bot:middle", env="nim-v0", seed=1)])
    spec = branch_spec(parent, 1, alternative=1, seats=("bot:strong", "bot:strong"))
    (branch,) = fork(rollouts, parent, spec)
    assert branch.trajectories[0].turns[0].completion_ids
    assert not any(turn.completion_ids for _, turn in turns_of(branch)[1:])


def test_it_is_stored_and_replayed_as_any_match(rollouts: Rollouts, tmp_path: Path) -> None:
    (parent,) = rollouts.play([match("base", "bot:middle", env="nim-v0", seed=1)])
    spec = branch_spec(parent, 2, alternative=1)
    log = TranscriptLog(tmp_path / "transcripts.jsonl")
    (branch,) = rollouts.play([spec], finished=log.add, parents={parent.spec.match_id: parent})
    (transcript,) = read_transcripts(tmp_path / "transcripts.jsonl").values()
    assert replay(transcript).digest == branch.transcript_sha256
    assert read_results(tmp_path / "transcripts.jsonl") == [(spec, branch.result())]
    with LeagueStore(tmp_path / "league.db") as store:
        for name in ("base", "bot:middle"):
            store.add_agent(
                AgentVersion(
                    agent_id=name, lineage=name, parent=None, role="anchor", step=0, spec={}
                )
            )
        store.report(parent.spec, parent.result())
        without = store.content_digest()
        store.lease([spec], owner="me", lease_s=60)
        assert [lease.spec for lease in store.leases()] == [spec]
        store.report(spec, branch.result())
        assert store.content_digest() != without
        assert store.matches(purpose="fork") == [(spec, branch.result())]
        assert store.matches(purpose="eval") == [(parent.spec, parent.result())]


CHANCE: dict[str, dict[str, Any]] = {
    "hanabi_mini-v0": {"max_retries": 2},
    "kuhn_poker-v0": {"deck": "leduc", "hands": 4},
    "liars_dice-v0": {},
    "sealed_auction-v1": {},
    "iterated_dilemma-v0": {"horizon": "geometric"},
}
"""Games in which something is left to chance after the start, with their options."""


@pytest.mark.parametrize("env_id", CHANCE)
def test_fresh_chances_change_what_no_seat_has_seen_and_replay(
    rollouts: Rollouts, env_id: str, tmp_path: Path
) -> None:
    seats = env_spec(env_id).seats
    given = match(*("bot:middle",) * seats, env=env_id, seed=4)
    (parent,) = rollouts.play([replace(given, options=CHANCE[env_id])])
    place = len(turns_of(parent)) // 3
    specs = [branch_spec(parent, place, alternative=k, chances="fresh") for k in range(1, 9)]
    parents, log = {parent.spec.match_id: parent}, TranscriptLog(tmp_path / "transcripts.jsonl")
    branches = rollouts.play(specs, finished=log.add, parents=parents)
    before = [(turn.observation, turn.reply) for _, turn in turns_of(parent)][:place]
    for branch in branches:
        turns = turns_of(branch)
        assert [(turn.observation, turn.reply) for _, turn in turns][:place] == before
        assert turns[place][1].observation == turns_of(parent)[place][1].observation
    assert len({branch.transcript_sha256 for branch in branches}) > 1
    assert len({tuple(t.observation for _, t in turns_of(b)) for b in branches}) > 1
    assert rollouts.play(specs, parents=parents) == branches
    recorded = read_transcripts(tmp_path / "transcripts.jsonl")
    for branch in branches:
        transcript = recorded[branch.spec.match_id]
        assert replay(transcript).digest == branch.transcript_sha256
        with pytest.raises(TranscriptError):
            replay(replace(transcript, reshuffles=()))

    other = next(b for b in branches if b.transcript_sha256 != parent.transcript_sha256)
    last = len(turns_of(other)) - 1
    (again, anew) = fork(
        rollouts,
        other,
        branch_spec(other, last, alternative=1),
        branch_spec(other, last, alternative=1, chances="fresh"),
    )
    assert again.transcript_sha256 == other.transcript_sha256  # bots go on as they did
    assert anew.reshuffles[: len(other.reshuffles)] == other.reshuffles
    assert len(anew.reshuffles) == 2


@pytest.mark.parametrize("env_id", CHANCE)
def test_equal_numbers_draw_alike_and_others_otherwise(env_id: str) -> None:
    with closing(make(env_id, **CHANCE[env_id])) as env:
        states = []
        for number in (1, 1, 2, 3, 4):
            env.reset(seed=4)
            env.reshuffle(number)
            states.append(json.dumps(env.get_state()["state"]))
    assert states[0] == states[1]
    assert len({*states}) > 1


WRONG: dict[str, Callable[[Episode, MatchSpec], tuple[dict[str, Episode], MatchSpec]]] = {
    "its parent was not given": lambda e, s: ({}, s),
    "replied otherwise before the decision": lambda e, s: (by_id(e, reply_other(e)), s),
    "seed 9": lambda e, s: (by_id(e, e), replace(s, seed=9)),
    "misere": lambda e, s: (by_id(e, e), replace(s, options={"misere": True})),
    "no policy 'alice@4-0'": lambda e, s: (by_id(e, e), replace(s, seats=("alice@4-0", "base"))),
    "shows something else than it showed the parent": lambda e, s: (by_id(e, show_other(e)), s),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_parent_is_refused_before_the_first_token(rollouts: Rollouts, said: str) -> None:
    (parent,) = rollouts.play([match("base", "bot:middle", env="nim-v0", seed=1)])
    parents, spec = WRONG[said](parent, branch_spec(parent, 2, alternative=1))
    rollouts.take_prompt_tokens()
    with pytest.raises(ConfigError, match=said):
        rollouts.play([spec], parents=parents)
    assert rollouts.take_prompt_tokens().all == 0


def by_id(parent: Episode, given: Episode) -> dict[str, Episode]:
    return {parent.spec.match_id: given}


def first_turn(episode: Episode, **changes: str) -> Episode:
    own = episode.trajectories[0]
    turns = (replace(own.turns[0], **changes), *own.turns[1:])  # type: ignore[arg-type]
    return replace(episode, trajectories=(replace(own, turns=turns), *episode.trajectories[1:]))


def reply_other(episode: Episode) -> Episode:
    return first_turn(episode, reply="<action>1 1</action>")


def show_other(episode: Episode) -> Episode:
    """As if the game had another prompt when it was played."""
    return first_turn(episode, observation="Your move.")


def test_decisions_that_are_not_there_are_refused(rollouts: Rollouts) -> None:
    (parent,) = rollouts.play([match("bot:random", "bot:middle", env="nim-v0", seed=1)])
    count = len(turns_of(parent))
    with pytest.raises(ConfigError, match=rf"has no decision {count}: it ended after {count}"):
        branch_spec(parent, count, alternative=1)
    with pytest.raises(ConfigError, match="1 seats for 2"):
        branch_spec(parent, 0, alternative=1, seats=("base",))
    wrong: Any
    for wrong in (1.0, "1", True):
        with pytest.raises(ConfigError, match="use whole numbers"):
            branch_spec(parent, 0, alternative=wrong)
    wrong = "new"
    with pytest.raises(ConfigError, match="chances='new': use parent or fresh"):
        branch_spec(parent, 0, alternative=1, chances=wrong)
    with pytest.raises(ConfigError, match="was lost"):
        branch_spec(replace(parent, termination="void", fault="x"), 0, alternative=1)
    old = tuple(
        replace(own, turns=tuple(replace(turn, step=-1) for turn in own.turns))
        for own in parent.trajectories
    )
    with pytest.raises(ConfigError, match="without its steps"):
        branch_spec(replace(parent, trajectories=old), 0, alternative=1)
