"""Keys: made once, kept outside what is published, and a signature holds for one value and purpose."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboards.keys import (
    KEYS,
    KeyFileError,
    board_key,
    is_signed,
    keys_folder,
    new_board_key,
    owner_key,
    public_key_fault,
)
from leaderboards.registration.charter import CHARTER, read_charter
from leaderboards.registration.tickets import Request, TicketError, write_json
from srl_envs.errors import StoreError

SMALL_ORDER = [
    "01" + 31 * "00",
    "ec" + 30 * "ff" + "7f",
    32 * "00",
    31 * "00" + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
"""Every point whose order divides 8, the neutral one first."""
SECOND_SPELLINGS = [
    "01" + 30 * "00" + "80",
    "ec" + 31 * "ff",
    *(
        f"{byte:02x}" + 30 * "ff" + last
        for byte in (*range(0xED, 0x100, 6), 0xFF)
        for last in ("7f", "ff")
    ),
]
"""The sign of an x that is 0, and coordinates from the prime on."""
NEUTRAL = f"ed25519:{SMALL_ORDER[0]}"
SIGNS_ALL = "01" + 63 * "00"
"""What the neutral point verifies for any text."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.fixture(autouse=True)
def _own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys of another."""
    monkeypatch.setenv(KEYS, str(tmp_path / "keys"))


def test_an_owner_has_one_key_that_only_he_can_read() -> None:
    assert owner_key().public == owner_key().public
    path = keys_folder() / "owner.pem"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="can be read by others: `chmod 600"):
        owner_key()


@given(data=st.dictionaries(st.text(max_size=5), JSON, max_size=3), other=JSON, key=st.text())
def test_a_signature_is_of_one_value_for_one_purpose(data: Any, other: Any, key: str) -> None:
    data.pop("signature", None)
    owner, signed = owner_key(), owner_key().signed("test/1", data)
    assert is_signed(owner.public, "test/1", signed)
    assert not is_signed(owner.public, "test/2", signed)
    assert not is_signed("ed25519:" + "0" * 64, "test/1", signed)
    if key != "signature" and signed.get(key, object()) != other:
        assert not is_signed(owner.public, "test/1", {**signed, key: other})


@pytest.mark.parametrize("signature", [None, 7, "", "zz" * 64, "0" * 127, "0" * 128, ["0" * 128]])
def test_what_is_no_signature_is_none(signature: Any) -> None:
    assert not is_signed(owner_key().public, "test/1", {"a": 1, "signature": signature})
    assert not is_signed(7, "test/1", owner_key().signed("test/1", {}))  # type: ignore[arg-type]


@pytest.mark.parametrize("point", SMALL_ORDER + SECOND_SPELLINGS)
def test_nobody_is_known_by_a_key_that_signs_for_anybody(point: str) -> None:
    assert public_key_fault(f"ed25519:{point}")
    assert not is_signed(f"ed25519:{point}", "test/1", {"a": 1, "signature": SIGNS_ALL})
    assert not public_key_fault(owner_key().public)


def test_neither_owner_nor_board_has_such_a_key(tmp_path: Path) -> None:
    agent = {"agent_id": "a", "contents": 64 * "1"}
    request = {"protocol": "nim-v0", "protocol_sha256": 64 * "0", "agents": [agent], "seeds": 1}
    with pytest.raises(TicketError, match=r"owner is .* of small order"):
        Request.from_data(request | {"owner": NEUTRAL, "signature": SIGNS_ALL})
    former = {"public_key": NEUTRAL, "tickets": 0, "link": 64 * "0", "until": ""}
    own = new_board_key(tmp_path / "board")
    for charter in (
        {"public_key": NEUTRAL, "signature": SIGNS_ALL},
        own.signed("board/1", {"public_key": own.public, "former": [former]}),
    ):
        write_json(tmp_path / "board" / CHARTER, {"schema": 1, **charter})
        with pytest.raises(StoreError, match="of small order"):
            read_charter(tmp_path / "board")


@pytest.mark.parametrize(
    ("folder", "mode", "refused"),
    [
        ("open/keys", 0o770, True),
        ("open/keys", 0o702, True),
        ("open/keys", 0o1777, True),
        ("open/keys", 0o755, False),
        ("open", 0o777, True),
        ("open", 0o1777, False),
        ("open", 0o775, False),
    ],
)
def test_others_cannot_replace_a_key(
    folder: str, mode: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS, str(tmp_path / "open" / "keys"))
    known = owner_key().public
    (tmp_path / folder).chmod(mode)
    if not refused:
        assert owner_key().public == known
        return
    for use in (
        owner_key,
        lambda: new_board_key(tmp_path / "b"),
        lambda: board_key(known, tmp_path / "b"),
    ):
        with pytest.raises(KeyFileError, match=r"can be written by others.*chmod go-w"):
            use()


@pytest.mark.parametrize("place", ["board/keys", "repo/keys", "repo/deep/er/keys"])
def test_a_key_never_lies_in_a_board_or_a_repository(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "board").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / place)
    for folder in (tmp_path / place, link):
        monkeypatch.setenv(KEYS, str(folder))
        with pytest.raises(KeyFileError, match="lies in the"):
            new_board_key(tmp_path / "board")
    assert not list(tmp_path.rglob("*.pem"))


def test_a_boards_key_that_is_not_here_is_named(tmp_path: Path) -> None:
    board = tmp_path / "board"
    key = new_board_key(board)
    assert board_key(key.public, board).public == key.public
    (path,) = keys_folder().iterdir()
    path.write_text("no key")
    with pytest.raises(KeyFileError, match="is not a private key"):
        board_key(key.public, board)
    other = new_board_key(board)
    os.replace(keys_folder() / next(p for p in keys_folder().iterdir() if p != path), path)
    with pytest.raises(KeyFileError, match="holds another key"):
        board_key(key.public, board)
    with pytest.raises(KeyFileError, match="srl leaderboard rekey"):
        board_key(other.public, board)
