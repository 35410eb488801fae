"""Frozen folders are read as they were written, or not at all."""

from pathlib import Path

import pytest

from srl_agents import checkpoints
from srl_agents.checkpoints.frozen import HASHES
from srl_envs.errors import CheckpointError


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "weights").write_bytes(bytes(range(256)))
    (work / "prompt.json").write_text("{}")
    checkpoints.keep_frozen(work, tmp_path / "alice@2")
    return tmp_path / "alice@2"


def test_what_was_frozen_is_whole(frozen: Path) -> None:
    assert checkpoints.changed_files(frozen) == []
    checkpoints.check_frozen(frozen, "never said")
    (frozen / "notes.txt").write_text("of another program")
    assert checkpoints.changed_files(frozen) == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_damaged_frozen_files_are_named_with_what_to_do(frozen: Path, damage: str) -> None:
    file = frozen / "weights"
    content = bytearray(file.read_bytes())
    content[7] ^= 1
    if damage == "flip":
        file.write_bytes(content)
    elif damage == "truncate":
        file.write_bytes(content[:-1])
    else:
        file.unlink()
    with pytest.raises(CheckpointError, match=r"alice@2/weights\. Do this\.$"):
        checkpoints.check_frozen(frozen, "Do this.")


def test_no_changed_byte_of_the_hashes_is_believed(frozen: Path) -> None:
    (frozen / "weights").write_bytes(b"other")
    file = frozen / HASHES
    good = file.read_bytes()
    for place in range(len(good)):
        changed = bytearray(good)
        changed[place] ^= 1
        file.write_bytes(changed)
        assert checkpoints.changed_files(frozen), bytes(changed)


def test_folders_from_before_there_were_hashes_are_believed(frozen: Path) -> None:
    (frozen / HASHES).unlink()
    (frozen / "weights").write_bytes(b"")
    assert checkpoints.changed_files(frozen) == []
