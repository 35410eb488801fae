"""The table of doors is true: each has tests, and what is said to run them does run them."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

from tests import doors, nightly
from tests.test_docs import headings

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NEEDED = {
    "openspiel", "textarena", "verifiers", "openenv", "rllib", "stable-baselines3", "trl", "inspect",
    "skyrl", "areal", "verl", "tinker",
}  # fmt: skip


def recipe(target: str) -> str:
    """Commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, flags=re.MULTILINE)
    assert found, f"the Makefile has no target {target}"
    return found[1]


def named_tests(path: Path) -> list[str]:
    return [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_every_promised_door_is_in_the_table() -> None:
    assert {re.split(r"[ (]", door.package)[0].lower() for door in doors.DOORS} == NEEDED


@pytest.mark.parametrize("door", doors.DOORS, ids=lambda door: door.part)
def test_a_door_has_tests_that_what_is_named_runs(door: doors.Door) -> None:
    for name in door.tests:
        assert named_tests(ROOT / name), f"{name} has no test"
        if door.target:
            commands = recipe(door.target)
            folder = name.rpartition("/")[0]
            assert name in commands or re.search(rf"{folder}\s", commands), f"{door.target}: {name}"
    assert door.part in nightly.PARTS
    page, _, place = door.guide.partition("#")
    text = (doors.PAGE.parent / page).read_text(encoding="utf-8")
    assert not place or place in headings(text)


@pytest.mark.parametrize(
    "door", [one for one in doors.DOORS if not one.target], ids=lambda d: d.part
)
def test_the_package_of_a_door_of_every_commit_is_installed_for_it(door: doors.Door) -> None:
    """Otherwise its tests would be skipped, and still be green."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    installed = [*extras["dev"], *extras["sb3"], *extras["train"]]
    known = door.package.split()[0].lower().replace("openspiel", "open-spiel")
    assert [one for one in installed if re.split(r"[>=<\[]", one)[0] == known]
    for name in door.tests:
        assert "mark.nightly" not in (ROOT / name).read_text(encoding="utf-8")


def test_make_doors_goes_through_every_nightly_door() -> None:
    (names,) = re.findall(r"^DOORS := (.*)$", MAKEFILE, flags=re.MULTILINE)
    nightly_ones = {door.target for door in doors.DOORS} - {"", "inspect"}
    assert {f"door-{name}" for name in names.split()} == nightly_ones


def test_every_adapter_has_a_door() -> None:
    """A module that imports another package under `srl_envs.adapters` is tried by a test of the table."""
    helpers = {"asked_episode", "deal_seeds", "named_episode", "inspect_child", "__init__"}
    tried = "".join((ROOT / name).read_text() for door in doors.DOORS for name in door.tests)
    modules = {path.stem for path in (ROOT / "srl_envs/adapters").glob("*.py")} - helpers
    modules = {
        name for name in modules if not re.search(rf"adapters(\.| import [\w, ]*\b){name}\b", tried)
    }
    assert modules - {"inspect_ai"} == set()


def test_the_page_is_what_the_results_give() -> None:
    rows = json.loads(nightly.RESULTS.read_text(encoding="utf-8"))
    assert doors.PAGE.read_text(encoding="utf-8") == doors.page(rows)
