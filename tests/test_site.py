"""The documentation site is built from the pages and the code; a dead link is a failure."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from benchmarks.environments import pages as environment_pages
from benchmarks.environments import prompts
from docs.site import reference
from srl_agents.cli import settings_page
from srl_agents.cli.documentation.topics import MODULES
from srl_envs.errors import SRLError
from tests.browser import chromium, emulate, fresh, violations
from tests.faults import page as faults_page
from tests.test_docs import DOCUMENTS, is_built, links

ROOT = Path(__file__).parents[1]
CONF = ROOT / "docs/site"
LOOKED_AT = (
    "index.html",
    "guides/train_a_league.html",
    "environments/nim-v0.html",
    "environments/README.html",
    "reference/doors.html",
    "reference/api/srl_envs.html",
    "reference/settings.html",
    "reference/commands.html",
    "search.html?q=misere",
)


def build(pages: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """What `make site` runs."""
    (recipe,) = re.findall(r"-m sphinx ((?:.*\\\n)?.*)\n", (ROOT / "Makefile").read_text())
    words = recipe.replace("\\\n", " ").split()
    places = {
        "build/doctrees": out.with_name("doctrees"),
        "docs/site": CONF,
        "docs": pages,
        "build/site": out,
    }
    command = [sys.executable, "-m", "sphinx", *(str(places.get(word, word)) for word in words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def written_pages() -> dict[Path, str]:
    """Pages that `make docs` writes; of the games one has its own."""
    nim = srl_envs.spec("nim-v0")
    shown = {nim.id: prompts.prompts(nim)}
    return {
        settings_page.PAGE: settings_page.page(settings_page.groups()),
        faults_page.PAGE: faults_page.page(),
        environment_pages.FOLDER / "nim-v0.md": environment_pages.page(nim),
        environment_pages.FOLDER / "prompts.md": prompts.page(shown, {}),
        environment_pages.FOLDER / "prompts.html": prompts.web_page(shown, {}),
        **{reference.FOLDER / name: text for name, text in reference.pages().items()},
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without touching the working tree."""
    root = tmp_path_factory.mktemp("site")
    docs = ROOT / "docs"

    def left_out(folder: str, names: list[str]) -> set[str]:
        built = {name for name in names if is_built(Path(folder) / name)}
        return built | {"__pycache__"}

    shutil.copytree(docs, root / "docs", ignore=left_out)
    for path, text in written_pages().items():
        assert is_built(path), f"{path} is written, so it is not committed"
        target = root / "docs" / path.relative_to(docs)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    done = build(root / "docs", root / "built")
    assert done.returncode == 0, done.stderr
    return root / "built"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.nightly
def test_the_outline_for_models_leads_to_every_page(site: Path) -> None:
    outline = (site / "llms.txt").read_text(encoding="utf-8")
    listed = {target for target, _ in links(outline)}
    assert not [target for target in listed if not (site / target).is_file()]
    sources = {path.relative_to(site).as_posix() for path in (site / "_sources").rglob("*.md")}
    assert sources - listed == {"_sources/index.md"}
    assert "## Reference" in outline


@pytest.mark.nightly
def test_every_public_name_has_its_source(site: Path) -> None:
    text = (site / "reference/api/srl_envs.html").read_text(encoding="utf-8")
    for name in srl_envs.__all__:
        assert re.search(rf'_modules/srl_envs/[\w/]+\.html#{name}"', text), name


@pytest.mark.nightly
def test_the_list_of_games_leads_to_their_pages(site: Path) -> None:
    text = (site / "environments/README.html").read_text(encoding="utf-8")
    assert 'href="nim-v0.html"' in text


@pytest.mark.nightly
@pytest.mark.parametrize("page", LOOKED_AT)
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_read_a_page(
    site: Path, browser: Any, page: str, width: int, theme: str
) -> None:
    fresh(browser, f"file://{site}/{page}")
    emulate(browser, width=width, theme=theme)
    assert violations(browser) == []
    wider = "return document.documentElement.scrollWidth - window.innerWidth"
    assert browser.execute_script(wider) <= 0
    frames = "return [...document.querySelectorAll('.table-wrapper, .highlight-text pre')]"
    hidden = f"{frames}.filter((frame) => frame.scrollWidth > frame.clientWidth + 1).length"
    assert width > 390 or browser.execute_script(hidden) == 0  # a desk scrolls the widest tables
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.nightly
def test_the_search_finds_from_disk(site: Path, browser: Any) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    fresh(browser, f"file://{site}/search.html?q=misere")
    found = "return [...document.querySelectorAll('#search-results li a')].map((link) => link.href)"
    WebDriverWait(browser, 20).until(lambda page: page.execute_script(found))
    assert any("nim-v0.html" in link for link in browser.execute_script(found))


@pytest.mark.slow
def test_a_dead_link_is_a_failure(tmp_path: Path) -> None:
    dead = "[gone](gone.md) [no such place](index.md#nowhere) ![no picture](images/lost.svg)"
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/index.md").write_text(f"# A page\n\n{dead}\n", encoding="utf-8")
    done = build(tmp_path / "pages", tmp_path / "built")
    assert done.returncode != 0
    assert all(word in done.stderr for word in ("gone.md", "nowhere", "lost.svg"))
    (tmp_path / "pages/index.md").write_text("# A page\n\n[here](#a-page)\n", encoding="utf-8")
    assert build(tmp_path / "pages", tmp_path / "built").returncode == 0


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    for public in reference.public_names(module):
        value = getattr(module, public)
        if callable(value):
            assert inspect.getdoc(value), f"{name}.{public} has no text"


def test_the_errors_are_those_that_can_be_raised() -> None:
    found = reference.errors()
    loaded = [one for one in SRLError.__subclasses__() if one.__module__.startswith("srl_envs.")]
    assert {one.__name__ for one in loaded if not one.__name__.startswith("_")} <= {*found}
    assert all(one.text for one in found.values())
    assert found["UnknownVersionError"].bases == ("ModelError", "LookupError")


def test_every_page_is_in_the_table_of_contents() -> None:
    trees = re.findall(
        r"```\{toctree\}\n(.*?)```", (ROOT / "docs/index.md").read_text(), flags=re.DOTALL
    )
    listed = [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]
    below = [path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")]
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in below]
    left = {str(page) for page in pages if not any(page.match(one) for one in listed)}
    assert left <= {"index", "package_readme"}, "name the page in docs/index.md"


def test_every_command_is_on_the_page() -> None:
    words = [" ".join(line) for line in reference.command_lines()]
    assert {"train", "league status", "leaderboard verify", "plan kv"} <= {*words}
    assert "--episodes" in reference.help_of(["play"])
