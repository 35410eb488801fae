"""`python -m benchmarks.environments.pages` writes a page per environment, and keeps the list of them."""

import re
from pathlib import Path

import pytest

import srl_envs
from benchmarks.environments import pages
from srl_envs.redteam import published
from srl_envs.redteam.findings import Report

CASES = [
    pytest.param(spec, marks=[pytest.mark.slow] if spec.runs_programs else [], id=spec.id)
    for spec in pages.built_in()
]
STALE = "run `python -m benchmarks.environments.pages` and review the diff"


def test_the_list_is_not_stale() -> None:
    written = (pages.FOLDER / "README.md").read_text(encoding="utf-8")
    assert written == pages.index(pages.built_in()), STALE


def test_the_table_of_hackability_is_not_stale() -> None:
    written = (pages.FOLDER / "hackability.md").read_text(encoding="utf-8")
    assert written == published.page(), STALE


def test_a_page_shows_its_row_of_the_last_published_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report("nim-v0", measures={"thoughtless": "rank 1 | x", "gain": -0.5, "half": 0.1})
    monkeypatch.setattr(published, "published", lambda: {"nim-v0": report})
    shown = "\n".join(pages.hackability("nim-v0"))
    assert "| gain | -0.500 ± 0.100 |" in shown
    assert "| best thoughtless policy | rank 1 \\| x |" in shown
    assert "Not attacked yet" in pages.hackability("blotto-v0")[0]


def test_the_command_writes_the_pages_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "FOLDER", tmp_path / "built")
    assert pages.main(["nim-v0"]) == 0
    (written,) = (tmp_path / "built").iterdir()
    assert written.name == "nim-v0.md"
    assert written.read_text(encoding="utf-8") == pages.page(srl_envs.spec("nim-v0"))


@pytest.mark.parametrize("spec", CASES)
def test_a_page_has_every_option_and_bot_with_what_it_does(
    spec: srl_envs.registry.EnvSpec,
) -> None:
    text = pages.page(spec)
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", text, flags=re.M)
    assert [name for name, _ in rows] == [*spec.options, *spec.bots]
    assert not [name for name, meaning in rows if "no description" in meaning]
    assert "Outcome: " in text.partition("of the eval split")[2]


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
