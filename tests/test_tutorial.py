"""The tutorial and the notebooks run from their first line to their last."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from srl_agents.cli.main import main

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
TUTORIAL = (ROOT / "docs/guides/tutorial.md").read_text(encoding="utf-8")
MOST_CELLS = 12


def commands() -> list[list[str]]:
    """What the tutorial has a shell do, without its installation."""
    blocks = re.findall(r"```sh\n(.*?)```", TUTORIAL, flags=re.DOTALL)
    lines = "\n".join(blocks).splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("srl ")]


@pytest.mark.nightly
def test_the_commands_of_the_tutorial_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(commands()) == 7
    for words in commands():
        assert main(words) == 0, words
    assert (tmp_path / "runs/tutorial/site/index.html").is_file()


def test_the_policy_of_the_tutorial_plays(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TUTORIAL, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "tutorial.md", "exec"), names)
    assert re.fullmatch(r"patient wins \d+ of 20\n", capsys.readouterr().out)
    steps = names["episode"].steps  # type: ignore[attr-defined]
    assert not any(step.invalid[0] for step in steps)


def test_there_is_a_notebook_for_each_kind_of_user() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["board_maker", "card_owner", "researcher"]
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        assert len(notebook.cells) <= MOST_CELLS
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert not any(cell.outputs or cell.execution_count for cell in code), "keep no outputs"
        for cell in code:
            compile(cell.source, path.name, "exec")
        assert f"../notebooks/{path.name}" in TUTORIAL


@pytest.mark.nightly
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where).execute()
