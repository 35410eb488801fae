"""Registrations: seeds that entrants cannot choose, tickets they cannot edit, attempts they cannot hide."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboards.keys import owner_key
from leaderboards.protocol import load_protocol, schedule
from leaderboards.registration.charter import CHARTER, read_charter, signing_key, write_charter
from leaderboards.registration.ticket_log import REGISTRATIONS, register, registrations
from leaderboards.registration.tickets import (
    Committed,
    Request,
    Ticket,
    TicketError,
    read_request,
    read_ticket,
    write_json,
)
from srl_agents.records import canonical_json
from srl_agents.rollouts.match import sampling_key
from srl_envs.errors import StoreError
from tests.leaderboards.command import main

PROTOCOL = load_protocol("kuhn_poker-v0")


def request(*contents: str, names: str = "abcdefgh") -> Request:
    agents = [Committed(name, c * 64) for name, c in zip(names, contents, strict=False)]
    return Request.sign(PROTOCOL, agents, owner_key())


def test_half_of_the_seeds_are_unknown_before_the_draw(tmp_path: Path) -> None:
    """And of those that are known, every one is on the public list."""
    ticket = register(tmp_path, request("1"))
    other = register(tmp_path, request("2"))
    public, mine, theirs = (
        [PROTOCOL.seed(k, draw) for k in range(PROTOCOL.seeds)]
        for draw in ("", ticket.draw, other.draw)
    )
    assert mine[::2] == theirs[::2] == public[::2]
    assert not {*mine[1::2], *theirs[1::2]} & {*public}
    assert not {*mine[1::2]} & {*theirs[1::2]}
    specs = schedule(PROTOCOL, ["a"], 4, ticket.draw)
    drawn = [spec for spec in specs if PROTOCOL.is_drawn(spec.number)]
    assert drawn
    assert all("a" in spec.seats for spec in drawn)
    assert len({spec.cluster for spec in specs if "a" in spec.seats}) == 4
    assert not {s.cluster for s in drawn} & {s.cluster for s in schedule(PROTOCOL, ["a"], 4)}


def test_no_reply_of_an_entrant_is_known_before_the_draw(tmp_path: Path) -> None:
    """On public seeds the deal is known, and random numbers are not; references stay comparable."""
    draws = ["", register(tmp_path, request("1")).draw, register(tmp_path, request("2")).draw]
    played = [schedule(PROTOCOL, ["a"], 1, draw) for draw in draws]
    assert len({spec.seed for specs in played for spec in specs}) == 1
    keys = [{sampling_key(0, s, 0, 0, {"a": "1"}) for s in p if "a" in s.seats} for p in played]
    assert not keys[0] & keys[1]
    assert not keys[1] & keys[2]
    among = [{s.match_id for s in specs if "a" not in s.seats} for specs in played]
    assert among[0] == among[1] == among[2] != set()


def test_a_request_is_drawn_once_and_every_change_is_another_attempt(tmp_path: Path) -> None:
    first = register(tmp_path, request("1", "2"))
    assert register(tmp_path, request("1", "2")) == first
    again = register(tmp_path, request("1", "3"))
    assert (first.number, again.number) == (0, 1)
    assert first.nonce != again.nonce
    assert registrations(tmp_path) == [first, again]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    if not isinstance(value, (dict, list)):
        return [path]
    children = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(p for key, child in children for p in _places(child, (*path, key)))]


@given(data=st.data())
def test_no_field_of_a_ticket_can_be_changed(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ticket = register(tmp_path_factory.mktemp("board"), request("1"))
    forged = json.loads(canonical_json(ticket.data))
    path = data.draw(st.sampled_from([p for p in _places(forged) if p]))
    holder = forged
    for key in path[:-1]:
        holder = holder[key]
    value = holder[path[-1]]
    other = data.draw(
        st.sampled_from([None, True, -1, 10**40, "", "x" * 300, [], {}, "f" * 64, "\u202e", value])
    )
    if other == value and type(other) is type(value):
        del holder[path[-1]]
    else:
        holder[path[-1]] = other
    with pytest.raises(TicketError):
        Ticket.from_data(forged)


@pytest.mark.parametrize(
    ("contents", "names", "words"),
    [
        ("1", "ab", "agent b is registered and missing"),
        ("123", "abc", "agent c is not registered"),
        ("13", "ab", "agent b is registered with contents 2222"),
        ("12", "ac", "agent b is registered and missing"),
    ],
)
def test_a_ticket_is_for_its_agents_together(
    contents: str, names: str, words: str, tmp_path: Path
) -> None:
    ticket = register(tmp_path, request("1", "2"))
    agents = [Committed(n, c * 64) for n, c in zip(names, contents, strict=False)]
    seeds = PROTOCOL.seeds
    assert not ticket.fault(PROTOCOL, ticket.request.agents, seeds)
    assert words in ticket.fault(PROTOCOL, agents, seeds)
    assert "64 seeds, not for 63" in ticket.fault(PROTOCOL, ticket.request.agents, 63)
    assert "not for this nim-v0" in ticket.fault(load_protocol("nim-v0"), agents, seeds)


@pytest.mark.parametrize(
    "change", ["drop", "swap", "edit", "other board", "no charter", "pipe", "piped charter"]
)
def test_an_edited_log_is_named(change: str, tmp_path: Path) -> None:
    board = tmp_path / "board"
    for contents in "123":
        register(board, request(contents))
    path = board / REGISTRATIONS
    lines = path.read_text().splitlines()
    if change == "drop":
        lines = [lines[0], lines[2]]
    elif change == "swap":
        lines[1], lines[2] = lines[2], lines[1]
    elif change == "edit":
        lines[1] = lines[1].replace('"number":1', '"number":7')
    elif change == "other board":
        register(tmp_path / "other", request("9"))
        lines = (tmp_path / "other" / REGISTRATIONS).read_text().splitlines()
    elif change == "no charter":
        (board / CHARTER).unlink()
    else:
        pipe = path if change == "pipe" else board / CHARTER
        pipe.unlink()
        os.mkfifo(pipe)
    if change != "pipe":
        path.write_text("\n".join(lines) + "\n")
    with pytest.raises(StoreError, match=r"estore|is a named pipe"):
        registrations(board)
    if change != "edit":  # a draw reads the end of the log only; old lines are in the signed index
        with pytest.raises(StoreError, match=r"estore|is a named pipe"):
            register(board, request("4"))


@pytest.mark.slow
def test_a_draw_that_was_killed_loses_no_ticket_that_was_given_out(tmp_path: Path) -> None:
    """Each loop acknowledges a ticket by printing it; the log must know all that were printed."""
    program = (
        "import sys, itertools\n"
        "from pathlib import Path\n"
        "from leaderboards.registration.ticket_log import register\n"
        "from leaderboards.keys import owner_key\n"
        "from leaderboards.protocol import load_protocol\n"
        "from leaderboards.registration.tickets import Committed, Request\n"
        "p = load_protocol('kuhn_poker-v0')\n"
        "for k in itertools.count(int(sys.argv[2])):\n"
        "    r = Request.sign(p, [Committed('a', f'{k:064x}')], owner_key())\n"
        "    print(register(Path(sys.argv[1]), r, limits=None).nonce, flush=True)\n"
    )
    given_out: list[str] = []
    for start in (0, 1000, 2000):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), str(start)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            given_out.append(process.stdout.readline().strip())
            time.sleep(0.05)
            process.kill()
            given_out += [line.strip() for line in process.stdout if line.endswith("\n")]
    known = [ticket.nonce for ticket in registrations(tmp_path)]
    assert len(known) >= len(given_out) >= 3
    assert set(given_out) <= set(known)


def test_a_line_that_was_cut_short_is_replaced(tmp_path: Path) -> None:
    first = register(tmp_path, request("1"))
    with (tmp_path / REGISTRATIONS).open("a") as file:
        file.write('{"board": "ed255')
    second = register(tmp_path, request("2"))
    assert registrations(tmp_path) == [first, second]


def test_requests_are_a_strangers_files(tmp_path: Path) -> None:
    """Two of one protocol in a folder get a ticket each; pipes and links are not followed."""
    mail, board, own = tmp_path / "mail", tmp_path / "board", tmp_path / "own"
    write_json(mail / "ann.request.json", request("1").data)
    write_json(mail / "bob.request.json", request("2").data)
    own.write_text("mine")
    (mail / ".ann.ticket.json.tmp").symlink_to(own)
    assert main(["draw", str(mail), "--board", str(board)]) == 0
    numbers = [read_ticket(mail / f"{name}.ticket.json").number for name in ("ann", "bob")]
    assert numbers == [0, 1]
    assert own.read_text() == "mine"
    os.mkfifo(mail / "pipe.request.json")
    with pytest.raises(TicketError, match="named pipe"):
        read_request(mail / "pipe.request.json")
    write_json(tmp_path / "ann.request.json", request("3").data)
    both = [str(folder / "ann.request.json") for folder in (mail, tmp_path)]
    assert main(["draw", *both, "--board", str(board), "--out", str(own.parent)]) == 2
    missing = str(tmp_path / "missing.request.json")
    assert main(["draw", *both[:1], missing, "--board", str(board)]) == 2
    assert len(registrations(board)) == 2


def test_a_bad_request_is_set_aside_and_the_others_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mail, board = tmp_path / "mail", tmp_path / "board"
    good, owner = request("1").data, owner_key()
    bad = {
        "cut": b'{"agents": [',
        "deep": b"[" * 100_000,
        "edited": json.dumps({**good, "seeds": 3}).encode(),
        "key": json.dumps({**good, "owner": "ed25519:01" + 62 * "0"}).encode(),
        "number": b"9" * 5000,
        "protocol": json.dumps(
            owner.signed("registration/1", {**good, "protocol": "chess-v9"})
        ).encode(),
        "huge": b" " * ((1 << 20) + 1),
    }
    mail.mkdir()
    for name, text in bad.items():
        (mail / f"{name}.request.json").write_bytes(text)
    os.mkfifo(mail / "pipe.request.json")
    (mail / "link.request.json").symlink_to("/dev/zero")
    for name, contents in {"blocked": "2", "ann": "1", "zoe": "3"}.items():
        write_json(mail / f"{name}.request.json", request(contents).data)
    (mail / "blocked.ticket.json" / "mine").mkdir(parents=True)
    assert main(["draw", str(mail), "--board", str(board), "--json"]) == 1
    out, err = capsys.readouterr()
    drawn = {Path(done["request"]).name.partition(".")[0]: done for done in json.loads(out)}
    aside = {name for name, done in drawn.items() if done["reason"]}
    assert aside == {*bad, "pipe", "link", "blocked"}
    assert "10 of 12 requests set aside, the others are drawn" in err
    assert all(f"set aside: {mail / name}.request.json: " in err for name in aside)
    assert read_ticket(mail / "ann.ticket.json").number == drawn["ann"]["number"] == 0
    assert read_ticket(mail / "zoe.ticket.json").number == drawn["zoe"]["number"] == 2
    (board / REGISTRATIONS).write_text("edited\n")
    assert main(["draw", str(mail), "--board", str(board)]) == 2


@pytest.mark.parametrize(
    ("names", "seeds", "words"),
    [
        (["a"], 0, "seeds is 0: kuhn_poker-v0 has 1 to 64"),
        (["a"], 1 << 50, "has 1 to 64"),
        (["openai-x"], 4, "agent openai-x: names that read like 'openai' are reserved"),
        (["acme-2"], 4, "agent acme-2: names that read like 'acme' are reserved"),
        (["a@b@3"], 4, "agent a@b@3: use up to 80 letters"),
        (["alIce", "alice"], 4, "agents alIce and alice: their names read alike"),
    ],
)
def test_what_could_not_be_published_is_not_drawn(
    names: list[str], seeds: int, words: str, tmp_path: Path
) -> None:
    """An entrant would play for hours with such a ticket, and its attempts would count."""
    first = register(tmp_path, request("1"))
    charter = read_charter(tmp_path)
    assert charter is not None
    write_charter(tmp_path, replace(charter, reserved=("acme",)), signing_key(tmp_path))
    agents = [{"agent_id": name, "contents": "1" * 64} for name in names]
    data = {**request("1").data, "agents": agents, "seeds": seeds}
    with pytest.raises(TicketError, match=words):
        register(tmp_path, Request.from_data(owner_key().signed("registration/1", data)))
    assert registrations(tmp_path) == [first]


def test_a_protocol_is_registered_by_its_own_name(tmp_path: Path) -> None:
    """A short name would be drawn, and fit no bundle afterwards."""
    data = {**request("1").data, "protocol": "kuhn_poker"}
    short = Request.from_data(owner_key().signed("registration/1", data))
    with pytest.raises(TicketError, match="here is kuhn_poker-v0"):
        register(tmp_path, short)
