"""What the documents show works as shown."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from fnmatch import fnmatch
from operator import attrgetter
from pathlib import Path

import pytest

import srl_envs
from benchmarks.environments import pages as environment_pages
from benchmarks.environments import prompts
from srl_agents.cli import settings_page
from srl_agents.cli.main import main
from srl_agents.recipes.loading import SHIPPED, load
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.rewards.terms import REWARD_SECTION
from srl_agents.testing import check_reward
from tests import documented_code
from tests.faults import page as faults_page

ROOT = Path(__file__).parents[1]
BUILT = re.findall(r"^docs/.*", (ROOT / ".gitignore").read_text(), flags=re.MULTILINE)
"""Patterns of the pages that `make docs` builds; they are not committed."""


def is_built(path: Path) -> bool:
    """Whether `make docs` builds this page."""
    name = path.resolve().relative_to(ROOT).as_posix()
    return any(fnmatch(name, pattern) for pattern in BUILT)


DOCUMENTS = [
    path
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    if not is_built(path)
]


MOST_WORDS = 90_000
"""Of all hand-written documents together, as `wc -w` counts; a new page pays by cutting an older one."""


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), flags=re.DOTALL)


def test_the_ten_lines_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _ = blocks(ROOT / "README.md", "python")
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "episode.jsonl").is_file()


@pytest.mark.nightly
def test_the_training_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, code = blocks(ROOT / "README.md", "python")
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert isinstance(names["agent"]("your move?"), str)  # type: ignore[operator]


@pytest.mark.slow
def test_the_board_of_the_readme_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # the key that signs
    (commands,) = blocks(ROOT / "README.md", "sh")
    for line in commands.splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
    assert (tmp_path / "my-site/index.html").is_file()


def test_the_readme_has_three_short_screens() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 120
    assert text.splitlines()[0].split("#")[0].strip() == "pip install srl-envs"
    for screen in text.split("\n## ")[1:4]:
        assert screen.count("![") == 1
        assert screen.count("**A number**") == 1
        assert screen.count("```") == 2


def test_the_environment_of_the_guide_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    game, held, known, register, checked, twin = blocks(
        ROOT / "docs/guides/write_an_environment.md", "python"
    )
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "guess.py").write_text(game)
    (package / "held.py").write_text(
        f"from my_package.guess import Guess, State, Streams\n\n\nclass Held(Guess):\n{held}\n\n{known}"
    )
    (package / "guess_numbers.py").write_text(twin)
    monkeypatch.syspath_prepend(tmp_path)
    register = register.replace(
        'mode="competitive"',
        'mode="competitive", numeric="my_package.guess_numbers:GuessNumbers"',
    )
    try:
        names: dict[str, object] = {}
        exec(compile(register, "guide", "exec"), names)
        policies = {seat: lambda text: "<action>5</action>" for seat in (0, 1)}
        module = importlib.import_module("my_package.held")
        start = module.Held().new(srl_envs.core.Streams(1, 2, 1, 3))
        assert module.AnsweredGuess().references(start, 0) == {"answer": str(start.secret)}
        assert srl_envs.play(names["env"], policies, seed=3).outcomes == (0.0, 0.0)  # type: ignore[arg-type]
        exec(compile(checked.replace('-v0")', '-v0", episodes=2)'), "guide", "exec"), names)
    finally:
        from srl_envs import registry

        registry._SPECS.pop("my_package/guess-v0", None)
        sys.modules.pop("my_package.guess", None)


def test_the_recipe_of_the_guide_is_valid(tmp_path: Path) -> None:
    text = "".join(blocks(ROOT / "docs/guides/train_a_league.md", "yaml"))
    path = tmp_path / "guide.yaml"
    path.write_text(text)
    assert load(LeagueRecipe, path).learners == ("alice", "bob")


def test_the_sections_of_the_guide_of_sharing_are_valid(tmp_path: Path) -> None:
    sections = blocks(ROOT / "docs/guides/warm_start_and_sharing.md", "yaml")
    path = tmp_path / "guide.yaml"
    path.write_text("name: a\nmodel: tiny\nenv: connect_four-v0\n" + "".join(sections))
    recipe = load(LeagueRecipe, path)
    assert recipe.training.algorithm == "dpo"
    assert None not in (recipe.warm_start, recipe.sharing, recipe.reward_model)


def test_the_rewards_of_the_guide_are_valid(tmp_path: Path) -> None:
    section = next(b for b in blocks(ROOT / "docs/guides/rewards.md", "yaml") if "terms:" in b)
    path = tmp_path / "guide.yaml"
    path.write_text(f"name: a\nmodel: tiny\nenv: connect_four-v0\n{section}")
    rewards = load(LeagueRecipe, path).rewards
    assert rewards is not None
    assert rewards.mask_overlong
    assert list(rewards.terms) == ["tidy", "short", "price"]


def test_the_reward_of_the_guide_is_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [b for b in blocks(ROOT / "docs/guides/rewards.md", "python") if "RewardTerm" in b]
    (tmp_path / "mentions_of_the_guide.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"kind": "mentions_of_the_guide:Mentions", "word": "please", "weight": 0.1}
    check_reward(REWARD_SECTION.convert(settings, "rewards.terms.polite"))


def test_the_wrappers_of_the_guide_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (section,) = blocks(ROOT / "docs/guides/wrappers.md", "yaml")
    (tmp_path / "potentials_of_the_guide.py").write_text(
        "def middle_column(text, seat): return 0.0"
    )
    monkeypatch.syspath_prepend(tmp_path)
    section = section.replace("my_package.potentials", "potentials_of_the_guide")
    path = tmp_path / "guide.yaml"
    path.write_text(f"name: a\nmodel: tiny\nenv: connect_four-v0\n{section}")
    kinds = [wrapper["kind"] for wrapper in load(LeagueRecipe, path).wrappers]
    assert kinds == ["HistoryWindow", "TurnLimit", "PotentialShaping"]


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_recipes_are_valid(path: Path) -> None:
    assert read_recipe(path).name == path.stem


def test_the_population_of_the_guide_is_valid(tmp_path: Path) -> None:
    (text,) = blocks(ROOT / "docs/guides/run_a_league.md", "yaml")
    path = tmp_path / "guide.yaml"
    path.write_text(text)
    assert read_recipe(path).name == "my-field"


def headings(text: str) -> set[str]:
    """What links call the headings of a page: lower case, no punctuation, hyphens between words."""
    found = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def links(text: str) -> list[tuple[str, str]]:
    """Target and place of each link to a file, outside of blocks of code."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"\]\(([^)#]*)#?([^)]*)\)", prose)
    return [(target, place) for target, place in found if "://" not in target]


def is_written(text: str) -> bool:
    """Whether a program writes this page, as its first lines state; its words are not counted."""
    return re.search(r"^Written by|writes this page", text[:600], flags=re.MULTILINE) is not None


def test_hand_written_documents_stay_short() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in DOCUMENTS}
    words = {name: len(text.split()) for name, text in texts.items() if not is_written(text)}
    assert {"docs/environments/balance.md", "docs/report.md"}.isdisjoint(words)
    assert sum(words.values()) < MOST_WORDS, sorted(words.items(), key=lambda item: -item[1])[:10]


def test_make_help_shows_every_target_and_documents_name_no_other() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    shown = set(re.findall(r"^([a-z-]+):.*?## ", makefile, flags=re.MULTILINE))
    assert shown == targets
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?:`|^ *|[$] )make ([a-z-]+)\b", text, flags=re.MULTILINE)
        assert set(named) <= targets, path.name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target, place in links(document.read_text()):
        found = document.parent / target if target else document
        assert not is_built(found), f"{document.name} links to {target}, which is not committed"
        assert found.exists(), f"{document.name} links to {target}"
        known = place and headings(found.read_text())
        assert not place or place in known, f"{document.name} links to {target}#{place}"


def test_links_of_built_pages_lead_to_committed_or_built_ones() -> None:
    nim = srl_envs.spec("nim-v0")
    built = {
        settings_page.PAGE: settings_page.page(settings_page.groups()),
        faults_page.PAGE: faults_page.page(),
        environment_pages.FOLDER / "nim-v0.md": environment_pages.page(nim),
        environment_pages.FOLDER / "prompts.md": prompts.page({nim.id: prompts.prompts(nim)}, {}),
    }
    for path, text in built.items():
        assert is_built(path)
        for target, place in links(text):
            found = (path.parent / target).resolve() if target else path
            assert is_built(found) or found.exists(), f"{path.name} links to {target}"
            assert not place or place in headings(built[found]), f"{path.name}: {target}#{place}"


@pytest.mark.slow
def test_the_python_of_the_readme_and_the_guides_has_types() -> None:
    """In `make test` mypy has already read the packages; by itself it takes a minute."""
    done = documented_code.check()
    assert done.returncode == 0, done.stdout


def test_a_page_becomes_a_module_with_its_fragments_in_classes() -> None:
    page = "```python\nclass A:\n    x = 1\n```\n\n```python\n    y = 2\n```\n"
    own = '```python\n"""A file."""\n```\n'
    assert list(documented_code.modules(own + page)) == [
        '"""A file."""\n',
        "class A:\n    x = 1\n\n\nclass Fragment2(A):\n    y = 2\n",
    ]


def test_the_twenty_settings_of_the_guide_are_settings() -> None:
    text = (ROOT / "docs/guides/settings.md").read_text()
    named = re.findall(r"^\| `([\w.]+)` \|", text, flags=re.MULTILINE)
    assert len(named) == len(set(named)) == 20
    recipe = load(LeagueRecipe, SHIPPED / "quickstart-tiny.yaml")
    for name in named:
        attrgetter(name)(recipe)


def test_the_readme_lists_every_environment() -> None:
    listed = set(re.findall(r"`([\w]+-v\d+)`", (ROOT / "README.md").read_text()))
    built_in = {name for name in srl_envs.list_envs() if "/" not in name}
    assert listed == built_in
