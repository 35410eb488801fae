"""Keys: made once, kept where nobody publishes them, and a signature holds for one value and purpose."""

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
)

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
    with pytest.raises(KeyFileError, match="is no private key"):
        board_key(key.public, board)
    other = new_board_key(board)
    os.replace(keys_folder() / next(p for p in keys_folder().iterdir() if p != path), path)
    with pytest.raises(KeyFileError, match="holds another key"):
        board_key(key.public, board)
    with pytest.raises(KeyFileError, match="srl leaderboard rekey"):
        board_key(other.public, board)
