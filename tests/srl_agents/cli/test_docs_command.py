"""`srl docs` shows the pages of the version that is installed, and messages name pages that it has."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from docs.site.wheel import shipped
from srl_agents.cli.documentation import topics as documentation
from srl_agents.cli.main import main
from srl_envs.errors import ConfigError
from tests.test_docs import is_built

ROOT = Path(__file__).parents[3]
PACKAGES = ("srl_envs", "srl_agents", "leaderboards")
PAGE = re.compile(r"docs/(?:guides|design|reference|environments)/\w+\.md")
MOST_BYTES = 5_000_000
"""Of the pages in a wheel."""


def test_without_a_topic_every_page_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    shown = capsys.readouterr().out
    assert "guides/endpoints" in shown
    assert str(documentation.folder()) in shown
    assert shown.index("guides/settings") < shown.index("design/architecture")


@pytest.mark.parametrize("topic", ["endpoints", "guides/endpoints", "docs/guides/endpoints.md"])
def test_a_page_is_printed_as_it_stands(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", topic]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/guides/endpoints.md").read_text()


def test_a_public_name_is_shown_as_python_helps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "srl_envs.make"]) == 0
    assert "make(env_id:" in capsys.readouterr().out
    assert main(["docs"]) == 0
    assert "srl_envs.wrappers" in capsys.readouterr().out


def test_a_guide_comes_before_a_reference_of_the_same_name() -> None:
    assert documentation.find("settings").parent.name == "guides"
    assert documentation.find("design/rewards").parent.name == "design"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["endpoint"], "no page 'endpoint'. Did you mean 'endpoints'?"),
        (["a", "b"], "give one TOPIC"),
        (["srl_envs.mak"], "srl_envs has no public name 'mak'. Did you mean 'make'?"),
        (["srl_envs.make.no"], "srl_envs.make.no: no such name. `srl docs srl_envs` lists"),
        (["--json"], "give one TOPIC"),
    ],
)
def test_mistakes_take_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_pages_that_are_missing_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(documentation, "_PLACES", (tmp_path / "a", tmp_path / "b"))
    with pytest.raises(ConfigError, match="the pages are missing"):
        documentation.folder()


def test_every_topic_that_a_text_names_exists() -> None:
    named = 0
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for topic in re.findall(r"`srl docs ([a-z]\S*)`", path.read_text(encoding="utf-8")):
                if not is_built(ROOT / f"docs/reference/{topic}.md"):
                    documentation.find(topic)
                named += 1
    assert named > 10


def test_no_message_names_a_file_that_a_wheel_has_not() -> None:
    """Docstrings are read in a checkout; what is printed is read everywhere."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.name == "settings_page.py":
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and id(node) not in texts:
                    found = PAGE.findall(str(node.value))
                    assert not found, f"{path}:{node.lineno} names {found}: write `srl docs TOPIC`"


def test_the_pages_are_small() -> None:
    files = [documentation.folder() / path for path in shipped()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    names = {path.as_posix() for path in shipped()}
    assert {"guides/endpoints.md", "changelog.md", "images/leaderboard.png"} <= names
    assert not any("site/" in name or "package_readme" in name for name in names)


@pytest.mark.slow
def test_a_wheel_opens_its_own_pages(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for folder in ("docs", *PACKAGES):
        shutil.copytree(
            ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(tmp_path)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(source)]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    code = "from srl_agents.cli.main import main; main(['docs'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "installed", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path / "installed/srl_agents/documentation") in done.stdout
    assert "guides/endpoints" in done.stdout
