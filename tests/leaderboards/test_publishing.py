"""A board takes what was registered with it, signs what it checked, and records the owner of a name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from leaderboards.boards import publishing
from leaderboards.boards.archive import CHANGELOG, read_board
from leaderboards.boards.publishing import attempts, publish, rekey
from leaderboards.bundles.submission import Bundle, open_bundle
from leaderboards.bundles.verify import verify
from leaderboards.contents.bases import KNOWN
from leaderboards.keys import KEYS, keys_folder, owner_key
from leaderboards.redteam.forger import Forger
from leaderboards.registration import ticket_log
from leaderboards.registration.charter import CHARTER, read_charter
from leaderboards.registration.ticket_log import registrations
from leaderboards.registration.tickets import TicketError
from srl_agents.agents.contents import base_sha256
from srl_agents.models.sources import random_model
from srl_envs.errors import ConfigError, StoreError
from tests.leaderboards.command import main
from tests.leaderboards.forging import make_bundle, registered

GAME = "kuhn_poker-v0"
TOKENS = 4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A base whose weights the board has on its list, so that it can be audited without being given."""
    folder = tmp_path_factory.mktemp("base")
    random_model.build(folder, context=2048)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KNOWN, base_sha256(folder), str(folder))
        yield folder


@pytest.fixture(scope="module")
def bots(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("bots"), GAME)


def entry(folder: Path, board: Path, name: str, base: Path, tokens: int = TOKENS) -> Bundle:
    """A bundle of a model that was registered with a board."""
    agents = (f"{name}={base}",)
    ticket = registered(board, GAME, agents, tokens)
    return make_bundle(folder, GAME, agents, tokens, ticket=ticket)


def put(bundle: Bundle, board: Path, level: str = "L1") -> bool:
    verdict = verify(bundle.folder, level, workers=0)  # type: ignore[arg-type]
    assert verdict.accepted, verdict.rejected
    return publish(bundle, verdict, board)


@pytest.mark.slow
def test_a_registered_agent_is_published_and_holds_at_l3(base: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    bundle = entry(tmp_path, board, "plain", base)
    assert put(bundle, board, "L3")
    assert bundle.ticket is not None
    owner = bundle.ticket.request.owner
    assert attempts(registrations(board)).count(owner, GAME, "plain@7") == 1


@pytest.mark.slow
def test_who_was_not_registered_with_this_board_is_refused(base: Path, tmp_path: Path) -> None:
    free = make_bundle(tmp_path / "free", GAME, (f"plain={base}",), TOKENS)
    with pytest.raises(ConfigError, match="was not registered with a board before it played"):
        put(free, tmp_path / "board")
    foreign = entry(tmp_path, tmp_path / "other", "plain", base)
    with pytest.raises(ConfigError, match="its ticket is not one that"):
        put(foreign, tmp_path / "board")


@pytest.mark.slow
def test_a_renamed_agent_draws_the_same_replies(base: Path, tmp_path: Path) -> None:
    """So the best of many names gains nothing over one. Without a ticket, all seeds are the same."""
    replies = []
    for name in ("a", "b"):
        bundle = make_bundle(tmp_path / name, GAME, (f"{name}={base}",), TOKENS)
        replies.append([r.transcript.digest for r in bundle.records()])
    assert replies[0] == replies[1]


@pytest.mark.slow
def test_an_agent_that_is_left_out_of_its_ticket_is_missed(base: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    ticket = registered(board, GAME, (f"a={base}",), TOKENS)
    forged = Forger.of(make_bundle(tmp_path, GAME, (f"b={base}",), TOKENS), tmp_path)
    forged.manifest["claim"] |= {"ticket": ticket.data, "seeds": 2}
    verdict = verify(forged.rehash(), "L0")
    assert "agent a is registered and missing" in verdict.rejected


@pytest.mark.slow
def test_only_who_registered_makes_a_bundle_of_the_ticket(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tickets are public. Below L3 a copied one would let a stranger lose in the owner's name."""
    board = tmp_path / "board"
    agents = (f"alice={base}",)
    ticket = registered(board, GAME, agents, TOKENS)
    honest = make_bundle(tmp_path / "honest", GAME, agents, TOKENS, ticket=ticket)
    unsigned = Forger.of(honest, tmp_path / "1")
    del unsigned.manifest["signature"]
    changed = Forger.of(honest, tmp_path / "2")
    changed.manifest["provenance"]["command"] = "srl another"
    monkeypatch.setenv(KEYS, str(tmp_path / "thief"))
    resigned = Forger.of(honest, tmp_path / "3")
    resigned.manifest = owner_key().signed("bundle/1", resigned.manifest)
    for forged in (unsigned, changed, resigned):
        assert "not signed by the owner of its ticket" in verify(forged.rehash(), "L0").rejected
    with pytest.raises(ConfigError, match="Bundle where the agents were registered"):
        make_bundle(tmp_path / "thief-run", GAME, agents, TOKENS, ticket=ticket)
    free = Forger.of(make_bundle(tmp_path / "free", GAME), tmp_path / "4")
    free.manifest["signature"] = "0" * 128
    assert "no ticket that names its owner" in verify(free.rehash(), "L0").rejected


@pytest.mark.slow
def test_a_name_belongs_to_the_owner_who_registered_it_first(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-alike is not drawn, so its owner pays for nothing; and it publishes nothing before the first."""
    board = tmp_path / "board"
    first = entry(tmp_path / "1", board, "alice@3", base)
    board_keys = keys_folder()
    monkeypatch.setenv(KEYS, str(tmp_path / "thief"))
    (tmp_path / "thief").mkdir()
    for key in board_keys.glob("board-*"):
        (tmp_path / "thief" / key.name).write_bytes(key.read_bytes())
        (tmp_path / "thief" / key.name).chmod(0o600)
    for name in ("alice@9", "A-l.I_c-e", "al1ce", "4lice@3", "alice/mine", "AIice/gpt-5@2"):
        with pytest.raises(TicketError, match="belongs to the owner"):
            registered(board, GAME, (f"{name}={base}",), TOKENS + 1)
    assert put(entry(tmp_path / "2", board, "bob", base, TOKENS + 1), board)
    monkeypatch.setenv(KEYS, str(board_keys))
    assert put(first, board)
    assert put(entry(tmp_path / "3", board, "alice@9", base, TOKENS + 2), board)


@pytest.mark.slow
def test_a_row_of_a_look_alike_that_an_older_board_took_is_set_aside(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boards once gave a name to the first who published, and drew look-alikes of other owners."""
    board = tmp_path / "board"
    honest = entry(tmp_path / "1", board, "alice", base)
    board_keys = keys_folder()
    with monkeypatch.context() as thief:
        thief.setenv(KEYS, str(tmp_path / "thief"))
        (tmp_path / "thief").mkdir()
        for key in board_keys.glob("board-*"):
            (tmp_path / "thief" / key.name).write_bytes(key.read_bytes())
            (tmp_path / "thief" / key.name).chmod(0o600)
        thief.setattr(ticket_log._Writer, "_taken", lambda *_: "")
        thief.setattr(publishing, "_require_names", lambda *_: None)
        assert put(entry(tmp_path / "2", board, "A1ice", base, TOKENS + 1), board)
    assert len(read_board_entries(board)) == 1
    assert put(honest, board)
    assert [b.root for b in read_board_entries(board)] == [honest.root]
    (part,) = read_board(board).set_aside
    assert "registered it first, with ticket 0" in part.reason


def test_a_verification_that_was_edited_is_not_believed(bots: Bundle, tmp_path: Path) -> None:
    put(bots, tmp_path)
    path = next(tmp_path.glob("*/*.verified.json"))
    data = json.loads(path.read_text())
    for key, value in {"level": "L3", "root": "0" * 64, "notes": [], "when": ""}.items():
        path.write_text(json.dumps(data | {key: value}))
        (part,) = read_board(tmp_path).set_aside
        assert "not signed by this board's key" in part.reason


def test_a_charter_that_was_edited_is_named(bots: Bundle, tmp_path: Path) -> None:
    put(bots, tmp_path / "board")
    put(bots, tmp_path / "other")
    path = tmp_path / "board" / CHARTER
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"reserved": ["x"]}))
    with pytest.raises(StoreError, match=r"board\.json was edited"):
        read_board(tmp_path / "board")
    path.write_bytes((tmp_path / "other" / CHARTER).read_bytes())  # a thief's own key
    (part,) = read_board(tmp_path / "board").set_aside
    assert "not signed by this board's key" in part.reason


@pytest.mark.nightly
def test_rekey_checks_everything_again_and_signs_with_another_key(
    base: Path, bots: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "board"
    put(bots, board)
    put(entry(tmp_path, board, "plain", base), board, "L3")
    before = read_charter(board)
    assert before is not None
    for path in keys_folder().glob("board-*"):
        path.unlink()  # lost
    assert main(["rekey", str(board), "--workers", "0"]) == 0
    after = read_charter(board)
    assert after is not None
    assert after.public_key != before.public_key
    assert after.former[0].public_key == before.public_key
    (group,) = read_board(board).groups
    assert sorted(e.level for e in group.entries) == ["L1", "L3"]
    assert f"key is now {after.fingerprint}" in capsys.readouterr().out
    later = entry(tmp_path / "later", board, "later", base, TOKENS + 1)
    assert put(later, board)
    assert [ticket.number for ticket in registrations(board)] == [0, 1]


def test_rekey_of_a_mistyped_folder_makes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rekey", str(tmp_path / "borad")]) == 2
    assert "borad is not a board with a key" in capsys.readouterr().err
    assert not (tmp_path / "borad").exists()


def test_rekey_sets_aside_what_does_not_hold_any_more(bots: Bundle, tmp_path: Path) -> None:
    board = tmp_path / "board"
    put(bots, board)
    path = next(board.glob("*/*/ratings.json"))
    path.write_text(path.read_text().replace("1", "2", 1))
    (done,) = rekey(board, workers=0)
    assert not done.level
    assert not read_board_entries(board)
    last = json.loads((board / CHANGELOG).read_text().splitlines()[-1])
    assert last["action"] == "set aside"


def test_a_rekey_that_was_stopped_half_way_can_be_repeated(bots: Bundle, tmp_path: Path) -> None:
    """The charter is new, the verifications are signed by the key before."""
    put(bots, tmp_path)
    path = next(tmp_path.glob("*/*.verified.json"))
    signed_before = path.read_bytes()
    list(rekey(tmp_path, workers=0))
    path.write_bytes(signed_before)
    assert "leaderboard rekey" in read_board(tmp_path).set_aside[0].reason
    assert [done.level for done in rekey(tmp_path, workers=0)] == ["L1"]
    assert len(read_board_entries(tmp_path)) == 1


def read_board_entries(board: Path) -> list[Bundle]:
    return [entry.bundle for group in read_board(board).groups for entry in group.entries]


def test_a_board_without_its_key_publishes_nothing(bots: Bundle, tmp_path: Path) -> None:
    board = tmp_path / "board"
    put(bots, board)
    for path in keys_folder().glob("board-*"):
        path.unlink()
    other = make_bundle(tmp_path, "nim-v0")
    with pytest.raises(Exception, match="srl leaderboard rekey"):
        put(open_bundle(other.folder), board)
    assert len(list(board.glob("*/*/manifest.json"))) == 1
