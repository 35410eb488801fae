"""Every folder has its place in an import contract, and a newcomer can read a list of files, and a file."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("srl_envs", "srl_agents", "leaderboards")
MOST_FILES = 15
"""Beside ``__init__.py`` and the rooms of a folder."""
MOST_LINES = 600
"""Of a Python file, tests as well."""


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def folders() -> Iterator[str]:
    """Every package below the packages, as a dotted name."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("__init__.py")):
            yield ".".join(path.parent.relative_to(ROOT).parts)


def placed(folder: str, of: list[dict[str, Any]]) -> bool:
    """Whether a contract of the folder's parent limits what the folder may import."""
    parent, _, name = folder.rpartition(".")
    for contract in of:
        if contract["type"] == "layers" and parent in contract.get("containers", [""]):
            layers = "|".join(contract["layers"]).replace(":", "|").split("|")
            if name in (layer.strip(" ()") for layer in layers):
                return True
        if contract["type"] == "independence" and {folder, f"{parent}.*"} & {*contract["modules"]}:
            return True
    return False


def crowded(root: Path) -> dict[str, int]:
    """Folders with more files than `MOST_FILES`, and how many."""
    found = {}
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        files = sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        if files > MOST_FILES:
            found[str(folder.relative_to(root.parent))] = files
    return found


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    command = ["git", "ls-files"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def long(files: list[Path]) -> dict[str, int]:
    """Files with more lines than `MOST_LINES`, and how many."""
    found = {}
    for path in files:
        lines = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
        if lines > MOST_LINES:
            found[str(path)] = lines
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_is_crowded(package: str) -> None:
    assert crowded(ROOT / package) == {}, "make a room: a folder with a noun for a name"


def test_every_folder_is_in_a_contract() -> None:
    found, of = [*folders()], contracts()
    assert len(found) > 60
    assert [folder for folder in found if not placed(folder, of)] == [], (
        "name it in `layers` of its parent's contract in pyproject.toml"
    )


def test_every_folder_with_rooms_is_held_by_a_contract() -> None:
    """A contract whose folder is gone, or was misspelled, holds nothing."""
    held = {name for contract in contracts() for name in contract.get("containers", [])}
    with_rooms = {folder.rpartition(".")[0] for folder in folders()} - {"", "srl_envs.families"}
    assert held == with_rooms


def test_the_rule_sees_a_new_folder(tmp_path: Path) -> None:
    of = [{"type": "layers", "containers": ["a.b"], "layers": ["c | (d)", "e:f"]}]
    assert all(placed(f"a.b.{name}", of) for name in "cdef")
    assert not placed("a.b.new", of)
    assert not placed("a.c", of)
    assert placed("a.x.y", [{"type": "independence", "modules": ["a.x.*"]}])


def test_the_rule_sees_a_crowded_folder(tmp_path: Path) -> None:
    room = tmp_path / "package" / "room"
    room.mkdir(parents=True)
    for number in range(MOST_FILES + 1):
        (room / f"{number}.py").touch()
    (room / "__init__.py").touch()
    assert crowded(tmp_path / "package") == {"package/room": MOST_FILES + 1}


def test_no_file_is_long() -> None:
    files = [ROOT / path for path in tracked() if path.endswith(".py")]
    assert len(files) > 1000
    assert long(files) == {}, "split it by subject, or make a room of it"


def test_the_rule_sees_a_long_file(tmp_path: Path) -> None:
    """And takes no notice of one that is removed and not yet committed."""
    fits, exceeds, gone = (tmp_path / f"{name}.py" for name in ("fits", "exceeds", "gone"))
    fits.write_text("\n" * MOST_LINES)
    exceeds.write_text("\n" * (MOST_LINES + 1))
    assert long([fits, exceeds, gone]) == {str(exceeds): MOST_LINES + 1}


def test_the_repository_holds_what_is_ours() -> None:
    """No virtual environment or output of a run is tracked."""
    tops = {path.split("/")[0] for path in tracked() if "/" in path}
    assert tops == {".ci", ".devcontainer", "benchmarks", "docs", "tests", *PACKAGES}
