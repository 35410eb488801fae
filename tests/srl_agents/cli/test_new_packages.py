"""`srl new` writes packages that are found by name and pass their kit at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.cli.scaffold.packages import KINDS, files

ROOT = Path(__file__).parents[3]


def installed(folder: Path, name: str) -> None:
    """What an installer leaves beside a package, so that its entry point is found."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{name}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n"
    )
    for group, entries in project.get("entry-points", {}).items():
        lines = [f"{key} = {value}" for key, value in entries.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")


@pytest.mark.parametrize(
    "kind",  # a commit checks the examples in tests/conformance/test_outside_package.py
    [
        pytest.param(kind, marks=pytest.mark.nightly if made.file else pytest.mark.slow)
        for kind, made in KINDS.items()
        if kind
        not in ("taskset", "openenv")  # in tests of their adapters, where these are installed
    ],
)
def test_a_new_package_passes_its_own_tests(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"my_own_{kind}"
    assert main(["new", kind, name, "--out", str(tmp_path)]) == 0
    assert f"pip install --editable '{tmp_path / name}[test]'" in capsys.readouterr().out
    installed(tmp_path / name, name)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / name}:{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(
        command, cwd=tmp_path / name, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_of_the_example_is_the_new_one(kind: str) -> None:
    package, made = files(kind, "trade_winds"), KINDS[kind]
    named = "trade_winds" if kind in ("sampler", "protocol", "taskset") else "TradeWinds"
    texts = [text for path, text in package.items() if path != "README.md"]
    assert named in "".join(texts)
    assert not made.example or not any(made.example in text for text in texts)
    assert not made.word or not any(made.word in text for text in texts)
    for path, text in package.items():
        assert not {"NAME", "CLASS", "MODULE"} & set(re.findall(r"[A-Z]{4,}", text)), path
        if path.endswith(".py"):
            compile(text, path, "exec")
            assert text.startswith('"""') or path.startswith("tests/")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["envs", "a"], "no kind 'envs'. Did you mean 'env'?"),
        (["env", "Trade-Winds"], "'Trade-Winds' names no package"),
        (["env", "json"], "'json' is taken"),
        (["env", "class"], "'class' names no package"),
        (["env", "trade_"], "'trade_' names no package"),  # no installer takes the name trade-
        (["env", "x" * 300], "names no package"),
        (["env", "../above"], "'../above' names no package"),
        (["env", "numpy"], "'numpy' is taken: `import numpy`"),
        (["env", "tests"], "'tests' is taken"),
        (["env", "none"], "the class would be None"),
        (["env", "any"], "the class would be Any"),
        (["coordination", "decision"], "the class would be Decision"),
        (["reward", "overlong"], "recipes already know a reward of this name"),
        (["algorithm", "grpo"], "recipes already know an algorithm of this name"),
        (["engine", "capabilities"], "the class would be Capabilities"),
    ],
)
def test_mistakes_take_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", *words, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_what_exists_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    assert main(["new", "env", "mine", "--out", str(tmp_path)]) == 2
    assert "exists" in capsys.readouterr().err
    assert not any((tmp_path / "mine").iterdir())
