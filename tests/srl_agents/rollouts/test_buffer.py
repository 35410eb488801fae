"""The buffer between two processes: whole groups leave it, each match counts once, and kills lose nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.records import (
    Episode,
    MatchSpec,
    TensorHeader,
    Trajectory,
    Turn,
    WeightUpdate,
    WeightVersion,
)
from srl_agents.rollouts.buffer import MatchBuffer, MatchOrder, groups_of, is_flat, left, needed
from srl_agents.rollouts.record_lines import AddedLines, add_line
from srl_envs.errors import StoreError

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
    for match in order.specs:
        buffer.add(1, episode(match, 0.5), 11.0)
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


def test_no_more_waits_than_the_bound_and_what_is_acknowledged_goes(tmp_path: Path) -> None:
    buffer = MatchBuffer(tmp_path, 2)
    for number in (1, 2):
        buffer.order(order_of(1, number=number), learned=0)
    with pytest.raises(StoreError, match="holds 2 that wait"):
        buffer.order(order_of(1, number=3), learned=0)
    buffer.add(1, episode(spec(0, 0)), 1.0)
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
    buffer.add(1, episode(spec(0, 0)), 1.0)
    buffer.order(order_of(2), learned=0)
    assert buffer.played(1).refresh() == 1
    buffer.order(order_of(3), learned=0)
    assert buffer.played(1).refresh() == 0


@settings(max_examples=25)
@given(st.data())
def test_torn_doubled_and_damaged_lines_cost_their_own_matches_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("lines") / "lines"
    written: list[int] = []
    for number in range(data.draw(st.integers(1, 8))):
        fate = data.draw(st.sampled_from(["whole", "whole", "torn", "damaged"]))
        add_line(path, {"number": number})
        if fate == "whole":
            written.append(number)
        elif fate == "torn":
            os.truncate(path, path.stat().st_size - data.draw(st.integers(2, 8)))
        else:
            content = bytearray(path.read_bytes())
            content[-3] ^= 1
            path.write_bytes(content)
    reader, found = AddedLines(path), []
    add_line(path, {"number": 99})
    found += [line["number"] for line in reader.more()]
    add_line(path, {"number": 100})
    found += [line["number"] for line in reader.more()]
    assert found == [*written, 99, 100]


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


def test_an_unfinished_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    add_line(path, {"number": 1})
    whole = path.read_bytes()
    path.write_bytes(whole[:5])
    reader = AddedLines(path)
    assert reader.more() == []
    path.write_bytes(whole)
    assert reader.more() == [{"number": 1}]


@settings(max_examples=25)
@given(
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.lists(st.booleans(), max_size=4),
    st.randoms(use_true_random=False),
)
def test_each_flat_group_asks_for_a_spare_in_whatever_order_matches_end(
    flat: list[bool], flat_spares: list[bool], chance: random.Random
) -> None:
    """And a process that begins anew after every match goes on alike."""
    order = order_of(len(flat), spares=len(flat_spares))
    fates = dict(zip([g[0].seed for g in groups_of(order.specs)], flat, strict=True))
    spare_fates = dict(enumerate(flat_spares))
    episodes: dict[str, Episode] = {}
    while matches := left(order, episodes):
        match = chance.choice(matches)
        fate = (fates if match.schedule == "train/alice" else spare_fates)[match.seed]
        episodes[match.match_id] = episode(match, 0.0 if fate else float(match.attempt))
    used, wanted = 0, sum(flat)
    while used < min(wanted, len(flat_spares)):
        wanted += flat_spares[used]
        used += 1
    taken = needed(order, episodes)
    assert set(episodes) == {match.match_id for match in taken}
    assert taken == [*order.specs, *order.spares[: 2 * used]]


def test_a_group_is_flat_where_no_learning_seat_was_paid_differently() -> None:
    first, second = spec(0, 0), spec(0, 1)
    assert is_flat([episode(first, 1.0), episode(second, 1.0)])
    assert not is_flat([episode(first, 1.0), episode(second, 0.0)])


WRITER = """
import sys
from pathlib import Path
from srl_agents.records import Episode
from srl_agents.rollouts.buffer import MatchBuffer, left
buffer = MatchBuffer(Path(sys.argv[1]), 1)
order, played = buffer.find(1), buffer.played(1)
played.refresh()
for match in left(order, played.episodes):
    buffer.add(1, Episode(spec=match, trajectories=(), termination='void'), 1.0)
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
    rest = left(order, played.episodes)
    assert len(rest) + len(played.episodes) == len(order.specs)
