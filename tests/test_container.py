"""The container's file keeps its promises, and what it does as its user works in a fresh environment."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import one_of

ROOT = Path(__file__).parents[1]
HOME = "/home/srl"


def instructions(text: str) -> list[tuple[str, str]]:
    """Name and rest of each instruction, comments left out, continued lines joined."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and line[0] != "#"]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


STEPS = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
AS_USER = STEPS[[name for name, _ in STEPS].index("USER") :]


def test_the_base_is_pinned_and_the_user_has_no_rights() -> None:
    name, base = STEPS[0]
    assert name == "FROM"
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", base)
    assert AS_USER[0] == ("USER", "srl")
    assert [name for name, _ in AS_USER].count("USER") == 1
    assert {"HEALTHCHECK", "ENTRYPOINT", "CMD"} <= {name for name, _ in AS_USER}


def test_the_page_says_that_it_is_not_built() -> None:
    assert "**Not built here.**" in (ROOT / "docs/guides/container.md").read_text(encoding="utf-8")


def test_editors_open_the_same_image() -> None:
    settings = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert (
        ROOT / ".devcontainer" / settings["build"]["dockerfile"]
    ).resolve() == ROOT / "Dockerfile"
    assert settings["remoteUser"] == AS_USER[0][1]
    assert settings["postCreateCommand"] == "make install"


@pytest.mark.nightly
def test_what_it_does_as_its_user_works_in_a_fresh_environment(tmp_path: Path) -> None:
    home = tmp_path / "home"
    left_out = shutil.ignore_patterns(
        *(ROOT / ".dockerignore").read_text().replace("**/", "").split()
    )
    shutil.copytree(ROOT, home / "source", ignore=left_out)
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    place = home

    def run(command: str) -> str:
        words = [one_of("bash"), "-c", command]
        done = subprocess.run(
            words, env=environment, cwd=place, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    entry: list[str] = []
    for name, rest in AS_USER[1:]:
        inside = rest.replace(HOME, str(home))
        match name:
            case "ENV":
                given = dict(pair.split("=", 1) for pair in inside.split())
                given["PATH"] = given["PATH"].replace("/usr/local/bin", environment["PATH"])
                environment |= given
            case "RUN":
                run(inside)
            case "WORKDIR":
                place = Path(inside)
            case "HEALTHCHECK":
                run(inside.partition("CMD ")[2])
            case "ENTRYPOINT":
                entry = json.loads(inside)
            case "CMD":
                assert "usage: srl" in run(" ".join(entry + json.loads(inside)))
            case _:
                pytest.fail(f"the test cannot run {name}")
    assert place == home / "work"
