"""The buffer between two processes: whole groups leave it, each match counts once, and kills lose nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.caching.simulation.traces import Request
from srl_agents.records import (
    Branch,
    Episode,
    MatchSpec,
    Served,
    TensorHeader,
    Trajectory,
    Turn,
    WeightUpdate,
    WeightVersion,
)
from srl_agents.rollouts import record_frames
from srl_agents.rollouts.buffer import MatchBuffer, MatchOrder, Played, frames_of, is_flat
from srl_agents.rollouts.record_frames import AddedFrames, add_frame
from srl_agents.training.ahead.demand import Demand
from srl_envs.errors import ModelError, StoreError

ALICE = "alice@3-0123456789abcdef"


def spec(group: int, attempt: int, schedule: str = "train/alice") -> MatchSpec:
    return MatchSpec(
        env_id="nim-v0", options={"heaps": [3, 2]}, seed=group, split="train",
        seats=(ALICE, "bot:random"), learner_seats=(0,), schedule=schedule, number=group,
        attempt=attempt,
    )  # fmt: skip


def episode(of: MatchSpec, paid: float = 0.0) -> Episode:
    turn = Turn(
        turn_index=0, observation="3 2", reply="take", invalid=None, reward=paid,
        components={"outcome": paid}, version=ALICE, prompt_ids=(1, 2), completion_ids=(3,),
        logprobs=(-0.1234567890123,), finish="stop",
    )  # fmt: skip
    seats = tuple(
        Trajectory(
            seat=seat, policy=name, turns=(turn,), outcome=paid, total_reward=paid, components={}
        )
        for seat, name in enumerate(of.seats)
    )
    return Episode(spec=of, trajectories=seats, termination="ok")


def order_of(groups: int, attempts: int = 2, spares: int = 0, number: int = 1) -> MatchOrder:
    version = WeightVersion.parse(ALICE)
    header = TensorHeader(name="a", dtype="F32", shape=(2, 3))
    return MatchOrder(
        number=number,
        specs=tuple(spec(g, a) for g in range(groups) for a in range(attempts)),
        spares=tuple(spec(g, a, "refill/alice") for g in range(spares) for a in range(attempts)),
        players={ALICE: "alice"},
        updates=(
            WeightUpdate(version=version, shown=(("see", "say"),), tensors=(header,), handle="x"),
        ),
    )


def test_an_order_and_its_matches_come_back_as_they_were(tmp_path: Path) -> None:
    buffer, order = MatchBuffer(tmp_path, 2), order_of(2)
    buffer.order(order, learned=0)
    buffer.begin(1, 10.0)
    buffer.add(1, [episode(match, 0.5) for match in order.specs], 11.0)
    buffer.add(1, [], 11.5)
    again = MatchBuffer(tmp_path, 2)
    assert again.find(1) == order
    assert again.versions() == {ALICE}
    played = again.played(1)
    assert played.refresh() == len(order.specs)
    assert [played.episodes[s.match_id] for s in order.specs] == [
        episode(s, 0.5) for s in order.specs
    ]
    assert not played.resting
    again.rest(1, 12.0)
    played.refresh()
    assert played.resting
    assert played.rounds == [[10.0, 12.0]]


def test_matches_that_arrive_as_frames_are_kept_as_they_are(tmp_path: Path) -> None:
    buffer, order = MatchBuffer(tmp_path, 2), order_of(2)
    buffer.order(order, learned=0)
    buffer.begin(1, 10.0)
    matches = [episode(match, 0.5) for match in order.specs]
    frames = frames_of(matches)
    received = Played()
    assert received.take(frames) == len(matches)
    buffer.add_frames(1, frames, 11.0)
    buffer.add_frames(1, frames_of(matches[:1]), 13.0)
    played = buffer.played(1)
    assert played.refresh() == len(matches)
    assert [*played.episodes.values()] == [*received.episodes.values()] == matches
    assert (played.rounds, played.resting) == ([[10.0, 13.0]], False)
    other = Played()
    assert other.take(buffer.frames(1)) == len(matches)
    assert other.episodes == played.episodes
    assert buffer.frames(2) == b""


@pytest.mark.parametrize("part", [slice(3, None), slice(None, -1)])
def test_frames_that_arrive_damaged_are_refused(part: slice) -> None:
    frames = frames_of([episode(spec(0, 0))])
    with pytest.raises(ModelError, match="arrived damaged"):
        Played().take(frames[part])
    changed = bytearray(frames)
    changed[-9] ^= 1
    with pytest.raises(ModelError, match="arrived damaged"):
        Played().take(bytes(changed))


TEXT = st.text(st.characters(), max_size=6)
"""Halves of characters too, as a reply may hold them."""
REAL = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
COUNT = st.integers(0, 9)
SOME_TURN = st.builds(
    Turn,
    turn_index=COUNT, observation=TEXT, reply=TEXT, invalid=st.none() | st.just("illegal"), reward=REAL,
    components=st.dictionaries(TEXT, REAL, max_size=2), prompt_ids=st.lists(COUNT).map(tuple),
    completion_ids=st.lists(st.integers(0, 2**70) | COUNT, max_size=4).map(tuple),
    logprobs=st.lists(REAL, max_size=4).map(tuple), thoughts=TEXT, masked=st.booleans(),
    served=st.none() | st.builds(Served, finish=st.just("stop"), cost=st.none() | REAL),
    references=st.dictionaries(TEXT, JSON, max_size=2), answer=st.none() | TEXT,
)  # fmt: skip
SOME_EPISODE = st.builds(
    Episode,
    spec=st.builds(
        MatchSpec,
        env_id=TEXT, options=st.dictionaries(TEXT, JSON, max_size=2), seed=st.integers(0),
        split=st.just("eval"), seats=st.lists(TEXT, max_size=2).map(tuple),
        teams=st.lists(COUNT, max_size=3).map(tuple),
        branch=st.none() | st.builds(
            Branch, parent=TEXT, decision=COUNT, alternative=st.integers(1, 9), prefix=TEXT
        ),
    ),
    trajectories=st.lists(
        st.builds(
            Trajectory,
            seat=COUNT, policy=TEXT, turns=st.lists(SOME_TURN, max_size=3).map(tuple), outcome=REAL,
            total_reward=REAL, components=st.just({}),
        ),
        max_size=2,
    ).map(tuple),
    termination=st.just("ok"), fault=TEXT,
    reshuffles=st.lists(st.tuples(COUNT, COUNT), max_size=2).map(tuple),
)  # fmt: skip
SOME_REQUEST = st.builds(
    Request, arrival_s=REAL, prompt_tokens=COUNT, reply_tokens=COUNT, session=st.none() | TEXT,
    blocks=st.lists(st.integers(-(2**64), 2**64), max_size=4).map(tuple),
)  # fmt: skip


@settings(max_examples=60)
@given(
    st.lists(SOME_EPISODE, max_size=3, unique_by=lambda each: each.spec.match_id),
    st.lists(SOME_REQUEST, max_size=2),
)
def test_whatever_was_played_and_asked_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, episodes: list[Episode], requests: list[Request]
) -> None:
    buffer = MatchBuffer(tmp_path_factory.mktemp("buffer"), 1)
    buffer.add(1, episodes, 1.0, requests)
    buffer.add(1, episodes, 2.0)
    played = buffer.played(1)
    assert played.refresh() == len(episodes)
    assert [*played.episodes.values()] == episodes
    assert [*played.requests.values()] == [requests] * len(episodes)
    assert [each.spec.match_id for each in played.episodes.values()] == [*played.episodes]


def test_no_more_waits_than_the_bound_and_what_is_acknowledged_goes(tmp_path: Path) -> None:
    buffer = MatchBuffer(tmp_path, 2)
    for number in (1, 2):
        buffer.order(order_of(1, number=number), learned=0)
    with pytest.raises(StoreError, match="holds 2 that wait"):
        buffer.order(order_of(1, number=3), learned=0)
    buffer.add(1, [episode(spec(0, 0))], 1.0)
    buffer.order(order_of(1, number=3), learned=1)
    buffer.acknowledge(1)
    assert buffer.numbers() == [2, 3]
    with pytest.raises(StoreError, match="update 1 cannot be ordered"):
        buffer.order(order_of(1), learned=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000002.order.json",
        "000003.order.json",
    ]


def test_what_was_played_stays_exactly_where_the_same_matches_are_ordered_again(
    tmp_path: Path,
) -> None:
    buffer = MatchBuffer(tmp_path, 1)
    buffer.order(order_of(2), learned=0)
    buffer.add(1, [episode(spec(0, 0))], 1.0)
    buffer.order(order_of(2), learned=0)
    assert buffer.played(1).refresh() == 1
    buffer.order(order_of(3), learned=0)
    assert buffer.played(1).refresh() == 0


@settings(max_examples=25)
@given(st.data())
def test_torn_and_damaged_frames_cost_their_own_matches_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("frames") / "frames"
    written: list[int] = []
    for number in range(data.draw(st.integers(1, 8))):
        fate = data.draw(st.sampled_from(["whole", "whole", "torn", "damaged"]))
        before = path.stat().st_size if path.exists() else 0
        add_frame(path, [{"number": number}])
        if fate == "whole":
            written.append(number)
        elif fate == "torn":
            os.truncate(
                path, path.stat().st_size - data.draw(st.integers(1, path.stat().st_size - before))
            )
        else:
            content = bytearray(path.read_bytes())
            content[data.draw(st.integers(before, len(content) - 1))] ^= 1 << data.draw(
                st.integers(0, 7)
            )
            path.write_bytes(content)
    reader, found = AddedFrames(path), []
    add_frame(path, [{"number": 99}])
    found += [framed.plain["number"] for framed in reader.more()]
    add_frame(path, [{"number": 100}])
    found += [framed.plain["number"] for framed in reader.more()]
    assert found == [*written, 99, 100]


def test_frames_of_another_form_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another version of this package kept is played again."""
    path = tmp_path / "frames"
    with monkeypatch.context() as other:
        arrow, schema, seed = record_frames._arrow()
        other.setattr(record_frames, "_arrow", lambda: (arrow, schema, seed + 1))
        add_frame(path, [{"number": 1}])
    add_frame(path, [{"number": 2}, {"number": 3}])
    assert [framed.plain["number"] for framed in AddedFrames(path).more()] == [2, 3]


def test_what_is_no_order_is_named_or_passed_over(tmp_path: Path) -> None:
    buffer = MatchBuffer(tmp_path / "buffer", 3)
    for name in ("old.order.json", "1 (copy).order.json", "-00001.order.json"):
        (buffer.folder / name).write_text("{}")
    assert buffer.numbers() == []
    for content in ("", "[]", "{}", '{"number": 1, "specs": [{}]}', "[" * 100_000):
        (buffer.folder / "000001.order.json").write_text(content)
        with pytest.raises(StoreError, match=r"000001\.order\.json is not an order"):
            buffer.versions()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        MatchBuffer(tmp_path / "file", 3)


def test_an_unfinished_frame_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "frames"
    add_frame(path, [{"number": 1}])
    whole = path.read_bytes()
    reader = AddedFrames(path)
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        assert reader.more() == []
    path.write_bytes(whole)
    assert [framed.plain for framed in reader.more()] == [{"number": 1}]
    assert reader.more() == []


def test_a_group_is_flat_where_no_learning_seat_was_paid_differently() -> None:
    first, second = spec(0, 0), spec(0, 1)
    assert is_flat([episode(first, 1.0), episode(second, 1.0)])
    assert not is_flat([episode(first, 1.0), episode(second, 0.0)])


WRITER = """
import sys
from pathlib import Path
from srl_agents.records import Episode
from srl_agents.rollouts.buffer import MatchBuffer
from srl_agents.training.ahead.demand import Demand
buffer = MatchBuffer(Path(sys.argv[1]), 1)
order, played = buffer.find(1), buffer.played(1)
played.refresh()
for match in Demand(order, None).left(played.episodes):
    buffer.add(1, [Episode(spec=match, trajectories=(), termination='void')], 1.0)
    print(match.match_id, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_it_kept_and_the_next_one_plays_the_rest(
    tmp_path: Path,
) -> None:
    buffer, order = MatchBuffer(tmp_path, 1), order_of(30, attempts=50)
    buffer.order(order, learned=0)
    printed: list[str] = []
    for stop_after in (300, 700):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(stop_after):
                printed.append(writer.stdout.readline().strip())
            os.kill(writer.pid, signal.SIGKILL)
    played = buffer.played(1)
    played.refresh()
    assert len(printed) == len(set(printed)) == 1000
    assert set(printed) <= set(played.episodes)
    rest = Demand(order, None).left(played.episodes)
    assert len(rest) + len(played.episodes) == len(order.specs)
