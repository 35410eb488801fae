"""`python -m benchmarks.environments.pages` updates stale pages."""

import re

import pytest

import srl_envs
from benchmarks.environments import pages
from srl_envs.redteam import published
from srl_envs.redteam.findings import Report

PROGRAMS = ("code_duel-v0", "pair_programming-v0", "spec_golf-v0")
"""Their samples run programs in the sandbox."""
CASES = [
    pytest.param(spec, marks=[pytest.mark.slow] if spec.id in PROGRAMS else [], id=spec.id)
    for spec in pages.built_in()
]
STALE = "run `python -m benchmarks.environments.pages` and review the diff"


@pytest.mark.parametrize("spec", CASES)
def test_no_page_is_stale(spec: srl_envs.registry.EnvSpec) -> None:
    written = (pages.FOLDER / f"{spec.id}.md").read_text(encoding="utf-8")
    assert written == pages.page(spec), STALE


def test_the_list_is_not_stale() -> None:
    written = (pages.FOLDER / "README.md").read_text(encoding="utf-8")
    assert written == pages.index(pages.built_in()), STALE


def test_the_table_of_hackability_is_not_stale() -> None:
    written = (pages.FOLDER / "hackability.md").read_text(encoding="utf-8")
    assert written == published.page(), STALE


def test_a_page_shows_its_row_of_the_last_published_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report("nim-v0", measures={"thoughtless": "rank 1 | x", "gain": -0.5, "half": 0.1})
    monkeypatch.setattr(pages.published, "published", lambda: {"nim-v0": report})
    shown = "\n".join(pages.hackability("nim-v0"))
    assert "| gain | -0.500 ± 0.100 |" in shown
    assert "| best thoughtless policy | rank 1 \\| x |" in shown
    assert "Not attacked yet" in pages.hackability("blotto-v0")[0]


def test_there_is_a_page_per_environment_and_no_other() -> None:
    expected = {
        "README.md",
        "balance.md",
        "hackability.md",
        "prompts.md",
        "prompts.html",
        *(f"{spec.id}.md" for spec in pages.built_in()),
    }
    assert {path.name for path in pages.FOLDER.iterdir()} == expected


@pytest.mark.parametrize("spec", pages.built_in(), ids=lambda spec: spec.id)
def test_a_page_has_every_option_and_bot_with_what_it_does(
    spec: srl_envs.registry.EnvSpec,
) -> None:
    text = (pages.FOLDER / f"{spec.id}.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", text, flags=re.M)
    assert [name for name, _ in rows] == [*spec.options, *spec.bots]
    assert not [name for name, meaning in rows if "no description" in meaning]


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        ("Take ``k`` of <n>.", r"Take `k` of \<n>."),
        ("a * b, ``a * b``", r"a \* b, `a * b`"),
        ("One.\n\n    Two.\n    Three.", "One.\n\nTwo.\nThree."),
    ],
)
def test_docstrings_become_markdown(docstring: str, text: str) -> None:
    assert pages.prose(docstring) == text
