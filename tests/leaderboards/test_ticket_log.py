"""The ticket log against entrants who edit it, race for names, or register with many keys."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboards import keys
from leaderboards.boards.publishing import rekey
from leaderboards.keys import SigningKey, owner_key
from leaderboards.names import name_key
from leaderboards.protocol import load_protocol
from leaderboards.registration import ticket_log
from leaderboards.registration.authenticated_map import EMPTY, AuthenticatedMap, DamagedMapError
from leaderboards.registration.charter import CHARTER, read_charter, signing_key, write_charter
from leaderboards.registration.ticket_log import (
    HEAD,
    INDEX,
    REGISTRATIONS,
    Limits,
    name_owners,
    register,
    registrations,
)
from leaderboards.registration.tickets import Committed, Request, Ticket, TicketError
from srl_agents.records import canonical_json
from srl_envs.errors import StoreError
from tests.leaderboards.command import main

PROTOCOL = load_protocol("kuhn_poker-v0")


def request(
    name: str, contents: int = 1, owner: SigningKey | None = None, maker: str = ""
) -> Request:
    agents = [Committed(name, f"{contents:064x}")]
    return Request.sign(PROTOCOL, agents, owner or owner_key(), maker=maker)


def stranger() -> SigningKey:
    return keys._generate()


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A board with three tickets."""
    for k, name in enumerate(("alice@3", "bob", "carol")):
        register(tmp_path / "board", request(name, k))
    return tmp_path / "board"


def lines(board: Path) -> list[str]:
    return (board / REGISTRATIONS).read_text().splitlines(keepends=True)


def test_a_draw_reads_as_much_of_a_long_log_as_of_a_short_one(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts signatures that are checked and bytes of the log that are read."""
    counted: list[int] = []
    checked, read = keys.is_signed, ticket_log._read_bytes

    def counting(*arguments: Any) -> bool:
        counted.append(0)
        return checked(*arguments)

    def reading(*arguments: Any) -> bytes:
        found = read(*arguments)
        counted.append(len(found))
        return found

    for module in ("ticket_log", "tickets", "charter"):
        monkeypatch.setattr(f"leaderboards.registration.{module}.is_signed", counting)
    monkeypatch.setattr(ticket_log, "_read_bytes", reading)
    costs = []
    for k in range(40):
        counted.clear()
        register(board, request("bob", 1000 + k), limits=None)
        costs.append((counted.count(0), sum(counted)))
    assert len({signatures for signatures, _ in costs}) == 1
    sizes = [size for _, size in costs]
    assert max(sizes) < 1.02 * min(sizes)


@pytest.mark.parametrize("change", ["cut", "cut all", "remove", "reorder", "end", "longer"])
def test_a_draw_sees_a_log_that_was_cut_or_changed_at_its_end(change: str, board: Path) -> None:
    before = lines(board)
    found = {
        "cut": before[:2],
        "cut all": [],
        "remove": [before[0], before[2]],
        "reorder": [before[0], before[2], before[1]],
        "end": [*before[:2], before[2].replace('"number":2', '"number":3')],
        "longer": [*before, before[2]],
    }[change]
    (board / REGISTRATIONS).write_text("".join(found))
    with pytest.raises(StoreError, match="estore"):
        register(board, request("dora", 9))
    with pytest.raises(StoreError, match="estore"):
        registrations(board)


def test_a_line_in_the_middle_that_was_edited_is_seen_by_every_reader(board: Path) -> None:
    text = (board / REGISTRATIONS).read_text()
    (board / REGISTRATIONS).write_text(text.replace('"agent_id":"bob"', '"agent_id":"bib"'))
    for full in (False, True):
        with pytest.raises(StoreError, match=r"line 2|line 3"):
            registrations(board, full=full)


def test_a_head_that_was_edited_or_removed_is_refused(board: Path) -> None:
    path = board / HEAD
    honest = path.read_text()
    for changes in ({"tickets": 2}, {"link": "0" * 64}, {"index": ""}, {"bytes": 0}, {"x": 1}):
        path.write_text(json.dumps(json.loads(honest) | changes))
        with pytest.raises(StoreError, match=r"head\.json"):
            register(board, request("dora", 9))
    own = stranger()
    path.write_text(json.dumps(own.signed("log-head/1", json.loads(honest))))
    with pytest.raises(StoreError, match="its signature is not the board's"):
        register(board, request("dora", 9))
    path.unlink()
    with pytest.raises(StoreError, match="is missing"):
        register(board, request("dora", 9))
    with pytest.raises(StoreError, match="is missing"):
        registrations(board)


def test_an_older_head_of_the_same_board_frees_no_name(tmp_path: Path) -> None:
    """Head and index are put back to an earlier state; the lines behind it are verified and counted."""
    board, kept = tmp_path / "board", tmp_path / "kept"
    register(board, request("bob"))
    shutil.copytree(board, kept)
    alice = stranger()
    register(board, request("alice", owner=alice))
    for name in (HEAD, INDEX):
        shutil.copy(kept / name, board / name)
    with pytest.raises(TicketError, match="belongs to the owner"):
        register(board, request("AIice", 2))
    assert register(board, request("alice", 2, alice)).number == 2


@pytest.mark.parametrize("damage", ["gone", "text", "folder", "emptied", "one leaf", "all leaves"])
def test_an_index_that_is_not_the_heads_is_built_again(damage: str, board: Path) -> None:
    """Nothing that lies in the index frees a name, loses a ticket, or stops the board."""
    import sqlite3

    path = board / INDEX
    if damage in ("gone", "text", "folder"):
        path.unlink()
    if damage == "text":
        path.write_text("not a database")
    elif damage == "folder":
        path.symlink_to(board / REGISTRATIONS)
    elif damage not in ("gone",):
        with sqlite3.connect(path) as file:
            deep = {
                "emptied": "1",
                "one leaf": "length(path) = 4",
                "all leaves": "length(path) > 0",
            }
            how = "DELETE FROM nodes" if damage == "emptied" else "UPDATE nodes SET content = '{}'"
            file.execute(f"{how} WHERE {deep[damage]}")
        file.close()
    before = registrations(board)
    thief = stranger()
    for name in ("alice", "B0B", "car-ol"):
        with pytest.raises(TicketError, match="belongs to the owner"):
            register(board, request(name, 7, thief))
    assert register(board, request("bob", 1)) == before[1]
    assert register(board, request("dora", 9)).number == 3
    assert path.is_file()
    assert not path.is_symlink()


def test_two_owners_who_race_for_a_name_get_one_ticket(tmp_path: Path) -> None:
    board = tmp_path / "board"
    register(board, request("first"))
    names = ["zoe", "Z0E", "z-o-e", "ZOE@3", "zoe/mine", "z.0.e"]
    requests = [request(name, k, stranger()) for k, name in enumerate(names)]
    drawn: list[Ticket] = []
    refused: list[str] = []

    def enter(one: Request) -> None:
        while True:
            try:
                drawn.append(register(board, one))
            except TicketError as error:
                refused.append(str(error))
            except StoreError as error:
                if "another process writes" in str(error):
                    continue
                raise
            return

    threads = [threading.Thread(target=enter, args=(one,)) for one in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 1
    assert len(refused) == len(names) - 1
    assert name_owners(registrations(board))[name_key("zoe")] == drawn[0].request.owner


def test_a_ticket_that_is_replayed_into_another_log_is_refused(board: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    register(other, request("eve", 5))
    with (other / REGISTRATIONS).open("a") as file:
        file.write(lines(board)[1])
    with pytest.raises(StoreError, match="does not follow"):
        register(other, request("dora", 9))


def test_a_forged_line_behind_the_head_is_refused(board: Path) -> None:
    """Well chained and signed, by a key that is not the board's."""
    last, thief = registrations(board)[-1], stranger()
    data = last.data | {"number": 3, "previous": last.link, "board": thief.public}
    with (board / REGISTRATIONS).open("a") as file:
        file.write(canonical_json(thief.signed("ticket/1", data)) + "\n")
    with pytest.raises(StoreError, match="was not the board's key then"):
        register(board, request("dora", 9))


def test_a_draw_that_was_stopped_between_log_and_head_is_completed(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ticket_log._Writer, "commit", _stop)
        with pytest.raises(KeyboardInterrupt):
            register(board, request("dora", 9))
    (dora,) = registrations(board)[3:]
    assert register(board, request("dora", 9)) == dora
    assert register(board, request("emil", 9)).number == 4
    with pytest.raises(TicketError, match="belongs to the owner"):
        register(board, request("D0RA", 9, stranger()))


def _stop(_writer: object) -> None:
    raise KeyboardInterrupt


def test_a_board_of_an_earlier_version_is_read_and_goes_on(board: Path) -> None:
    """It has no head and no index, as its charter states."""
    charter = read_charter(board)
    assert charter is not None
    before = registrations(board)
    (board / HEAD).unlink()
    (board / INDEX).unlink()
    write_charter(board, replace(charter, head=False), signing_key(board))
    assert registrations(board) == before
    with pytest.raises(TicketError, match="belongs to the owner"):
        register(board, request("al1ce", 9, stranger()))
    assert register(board, request("dora", 9)).number == 3
    assert read_charter(board) == charter


def test_a_new_key_vouches_for_the_log_even_if_the_head_was_lost(board: Path) -> None:
    before = registrations(board)
    (board / HEAD).unlink()
    list(rekey(board))
    assert registrations(board) == before
    assert register(board, request("dora", 9)).number == 3
    with pytest.raises(TicketError, match="belongs to the owner"):
        register(board, request("B0b", 9, stranger()))


# --- makers --------------------------------------------------------------------------------------


@contextmanager
def keys_of(folder: Path) -> Iterator[SigningKey]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SRL_KEYS", str(folder))
        yield owner_key()


def test_a_makers_names_are_for_the_key_that_the_board_lists(board: Path, tmp_path: Path) -> None:
    maker, thief = stranger(), stranger()
    claim = request("gpt-5", owner=maker, maker="openai")
    with pytest.raises(TicketError, match="does not list the key"):
        register(board, claim)
    assert main(["maker", "openai", maker.public, "--board", str(board)]) == 0
    ticket = register(board, claim)
    assert ticket.request.maker == "openai"
    for owner, name, as_maker in (
        (thief, "gpt-5", "openai"),  # not its key
        (thief, "gpt-5", ""),  # no claim
        (maker, "gpt-6", ""),  # its key, no claim
        (maker, "claude-opus-4", "openai"),  # another maker's name
        (maker, "claude-opus-4", "anthropic"),  # its key, listed for another maker
        (maker, "L3-verified", "openai"),
    ):
        with pytest.raises(TicketError, match=r"reserved|does not list"):
            register(board, request(name, 3, owner, as_maker))
    forged = {**request("gpt-5", 4, thief).data, "maker": "openai", "owner": maker.public}
    with pytest.raises(TicketError, match="signature is not its owner's"):
        Request.from_data(forged)
    cut = {key: value for key, value in claim.data.items() if key != "maker"}
    with pytest.raises(TicketError, match="signature is not its owner's"):
        Request.from_data(cut)
    assert main(["maker", "openai", maker.public, "--board", str(board), "--remove"]) == 0
    assert register(board, claim) == ticket
    with pytest.raises(TicketError, match="does not list the key"):
        register(board, request("gpt-6", owner=maker, maker="openai"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["opneai", "ed25519:" + "1" * 64], "Did you mean 'openai'"),
        (["openai", "ed25519:12"], "64 hexadecimal digits"),
        (["openai", "ed25519:" + "0" * 64], "small order"),
    ],
)
def test_a_mistake_in_listing_a_maker_takes_one_line(
    arguments: list[str], words: str, board: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (board / CHARTER).read_bytes()
    assert main(["maker", *arguments, "--board", str(board)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert (board / CHARTER).read_bytes() == before


# --- limits --------------------------------------------------------------------------------------


def test_a_key_and_all_new_keys_register_so_much_in_a_day(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(tickets=4, agents=5, new_keys=3)
    known = request("bob", 50)
    register(board, known, limits=limits)  # the fourth of this key
    with pytest.raises(TicketError, match="would have 5 tickets today, of 4"):
        register(board, request("bob", 51), limits=limits)
    assert register(board, known, limits=limits).number == 3  # drawn before: no new ticket
    two = stranger()
    many = [Committed(f"n{k}", f"{k:064x}") for k in range(6)]
    with pytest.raises(TicketError, match="would have 6 agents today, of 5"):
        register(board, Request.sign(PROTOCOL, many, two), limits=limits)
    register(board, request("eve", owner=two), limits=limits)
    register(board, request("fay", owner=stranger()), limits=limits)
    with pytest.raises(TicketError, match="3 new keys registered with this board today"):
        register(board, request("gil", owner=stranger()), limits=limits)
    register(board, request("eve", 2, two), limits=limits)  # a key that is known
    register(board, request("gil", owner=stranger()), limits=None)
    monkeypatch.setattr(ticket_log, "now", lambda: "2100-01-01T00:00:00+00:00")
    register(board, request("bob", 51), limits=limits)
    register(board, request("hal", owner=stranger()), limits=limits)


# --- the index -----------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    changes=st.lists(st.tuples(st.text(max_size=3), st.integers(), st.booleans()), max_size=30),
    absent=st.text(max_size=3),
)
def test_an_authenticated_map_is_a_map(
    changes: list[tuple[str, int, bool]], absent: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, root, expected = tmp_path_factory.mktemp("map") / "index", EMPTY, {}
    for key, value, reopened in changes:
        with AuthenticatedMap(path, root) as found:
            found.put(key, value)
            expected[key] = value
            root = found.commit()
            if not reopened:
                found.put(key, value + 1)
                expected[key] = value + 1
                root = found.commit()
    with AuthenticatedMap(path, root) as found:
        assert all(found.get(key) == value for key, value in expected.items())
        assert found.get(absent) == expected.get(absent)
    if expected:
        with pytest.raises(DamagedMapError):
            AuthenticatedMap(path, "0" * 64)
