"""Protocols: frozen, one per environment, and a schedule that entrants cannot influence."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboards.freeze import freeze
from leaderboards.protocol import (
    FOLDER,
    check_environment,
    frozen_hashes,
    load_protocol,
    protocol_names,
    schedule,
)
from srl_envs import list_envs, spec
from srl_envs.errors import ConfigError
from srl_envs.redteam.search import scores_teams

NAMES = protocol_names()
MEASURES = {"competitive": "elo", "cooperative": "cross_play", "mixed": "focal_return"}


def test_every_environment_has_a_protocol() -> None:
    """But those of one seat, in which no agent meets another."""
    with_others = {env_id for env_id in list_envs() if spec(env_id).seats > 1}
    assert {load_protocol(name).env for name in NAMES} == with_others
    assert with_others <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_protocol_changed_without_a_new_version(name: str) -> None:
    """If this fails: give the protocol the next version and run `python -m leaderboards.freeze`."""
    protocol = load_protocol(name)
    assert frozen_hashes()[f"{name}/{protocol.version}"] == protocol.sha256


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_fits_its_environment(name: str) -> None:
    protocol = load_protocol(name)
    check_environment(protocol)
    assert protocol.name.partition(".")[0] == protocol.env
    assert set(protocol.anchors) | set(protocol.pool) == set(spec(protocol.env).bots)
    assert protocol.rating.measure == MEASURES[protocol.mode]
    assert protocol.self_play == scores_teams(protocol.env)
    if spec(protocol.env).strangers:
        assert protocol.focal_seats == (1,)


def test_a_changed_protocol_is_refused_and_a_new_version_is_added(tmp_path: Path) -> None:
    folder = tmp_path / "protocols"
    folder.mkdir()
    for name in ("nim-v0.json", "frozen.json"):
        shutil.copy(FOLDER / name, folder)
    assert freeze(folder) == []
    data = json.loads((folder / "nim-v0.json").read_text())
    data["seeds"] = 8
    changed = folder / "nim-v0.json"
    changed.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="version 2"):
        freeze(folder)
    changed.write_text(json.dumps(data | {"version": 2}))
    assert freeze(folder) == ["nim-v0/2"]
    assert {"nim-v0/1", "nim-v0/2"} <= set(frozen_hashes(folder))


def test_another_default_of_the_environment_is_found() -> None:
    protocol = load_protocol("nim-v0")
    limits = replace(protocol.limits, max_retries=1)
    with pytest.raises(ConfigError, match="max_retries=1, this installation has 2"):
        check_environment(replace(protocol, limits=limits))


@pytest.mark.parametrize(
    ("name", "words"), [("nimm-v0", "nim-v0"), ("nothing", "There are"), ("nim-v7", "nim-v0")]
)
def test_an_unknown_name_gets_the_nearest(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_protocol(name)


def test_a_name_may_lack_its_version_but_not_its_variant() -> None:
    assert load_protocol("nim").name == "nim-v0"
    assert load_protocol("connect_four").name == "connect_four-v0"
    with pytest.raises(ConfigError, match="no protocol for 'connect_four"):
        load_protocol("connect_four.5x5x3")


def test_the_schedule_of_two_seats_by_hand() -> None:
    protocol = replace(load_protocol("connect_four-v0"), anchors=("random", "strong"), pool=())
    matches = schedule(protocol, ["me"], 2)
    one_seed = [
        ("bot:random", "bot:strong"), ("bot:strong", "bot:random"),
        ("me", "bot:random"), ("bot:random", "me"),
        ("me", "bot:strong"), ("bot:strong", "me"),
    ]  # fmt: skip
    assert [m.seats for m in matches] == one_seed * 2
    assert [m.number for m in matches] == [0] * 6 + [1] * 6
    assert len({m.seed for m in matches}) == 2
    assert {m.split for m in matches} == {"eval"}


def test_the_schedule_of_four_seats_by_hand() -> None:
    protocol = replace(load_protocol("commons-v1"), anchors=("random", "strong"), pool=())
    seats = [m.seats for m in schedule(protocol, [], 1)]
    r, s = "bot:random", "bot:strong"
    assert seats == [
        (r, s, s, s), (s, r, s, s), (s, s, r, s), (s, s, s, r),
        (r, r, r, s), (s, r, r, r), (r, s, r, r), (r, r, s, r),
        (r, r, r, r), (s, s, s, s),
    ]  # fmt: skip


def test_among_strangers_every_agent_sits_alone_in_every_seat_beside_each_other() -> None:
    """Copies in several seats could agree on a code; references visit each other both ways."""
    protocol = replace(load_protocol("undercover-v0"), anchors=("random", "strong"), pool=())
    seats = [m.seats for m in schedule(protocol, ["me"], 1)]
    pairs = [("bot:random", "bot:strong"), ("bot:strong", "bot:random"),
             ("me", "bot:random"), ("me", "bot:strong")]  # fmt: skip
    assert seats == [
        tuple(one if seat == turn else other for seat in range(5))
        for one, other in pairs
        for turn in range(5)
    ]


@given(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(["a", "b", "c@3"]), unique=True, max_size=3),
    st.integers(1, 4),
)
def test_a_schedule_is_balanced_and_its_references_do_not_depend_on_entrants(
    name: str, entrants: list[str], seeds: int
) -> None:
    protocol = load_protocol(name)
    matches = schedule(protocol, entrants, seeds)
    ids = [m.match_id for m in matches]
    assert len(set(ids)) == len(ids)
    references_only = {m.match_id for m in schedule(protocol, [], seeds)}
    assert {m.match_id for m in matches if not set(m.seats) & set(entrants)} == references_only
    assert ids[: len(ids) // seeds] == [m.match_id for m in schedule(protocol, entrants, 1)]
    for entrant in entrants:
        held = Counter(seat for m in matches for seat, who in enumerate(m.seats) if who == entrant)
        assert len(set(held.values())) == 1  # every seat equally often
        assert len(held) == protocol.seats
        assert not any(
            {entrant, other} <= set(m.seats)
            for m in matches
            for other in entrants
            if other != entrant
        )


@pytest.mark.parametrize("seeds", [0, -1, 65])
def test_seeds_beyond_the_list_are_refused(seeds: int) -> None:
    with pytest.raises(ConfigError, match="1 to 64"):
        schedule(load_protocol("nim-v0"), [], seeds)


def test_seeds_are_those_of_the_public_list() -> None:
    """sha256("nim-v0/1/0") begins so; by hand: echo -n nim-v0/1/0 | sha256sum."""
    import hashlib

    text = hashlib.sha256(b"nim-v0/1/0").hexdigest()
    assert load_protocol("nim-v0").seed(0) == int(text[:12], 16)
