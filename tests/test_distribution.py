"""One name for the distribution, everywhere; every extra brings what the packages use."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import srl_envs
from srl_envs.distribution import DISTRIBUTION, EXTRAS, extra_with, install_command

ROOT = Path(__file__).parents[1]
PRODUCT = ("srl_envs", "srl_agents", "leaderboards")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXTS = (".py", ".md", ".yaml", ".yml", ".html", ".js", ".toml", ".txt", ".css")
FOREIGN = [
    re.compile(r"(?<![\w.-])srl\[[\w,{} -]+\]"),
    re.compile(r"\b(?:pip3?|pipx|uvx?|poetry|conda)\b[^\n`|;&#]*(?<![\w./-])srl(?![\w\[-])"),
    re.compile(r"""["']srl\s*(?:[<>=~!]=|[<>@])"""),
    re.compile(r"""dependencies\s*=\s*\[[^\]]*["']srl["']"""),
    re.compile(r"""\b(?:version|metadata|distribution|requires|files)\(\s*["']srl["']"""),
]
"""Ways to write the name of another project's distribution."""
OTHERS_IMPORT_IT = {
    "gguf": "transformers, for the file of smollm2-135m",
    "math_verify": "a program in the sandbox, which is text here",
    "trackio": "Tracker, by the name that a recipe gives",
    "wandb": "Tracker, by the name that a recipe gives",
    "duckdb": "the user, who reads the export of a league with it",
    "stable_baselines3": "the user, who trains on the numeric views with it",
    "sb3_contrib": "the user, who trains on the numeric views with it",
}
"""Modules of extras that our packages do not import by themselves -> who does."""
MODULE_OF = {"pillow": "PIL", "pyyaml": "yaml", "google-re2": "re2", "open-spiel": "pyspiel"}


def texts() -> Iterator[Path]:
    """Every text of the repository but this one and recorded results."""
    yield from (path for path in ROOT.iterdir() if path.suffix in TEXTS)
    yield from (ROOT / "Makefile", *(ROOT / ".ci").iterdir())
    for folder in (*PRODUCT, "benchmarks", "tests", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in TEXTS and path != Path(__file__):
                yield path


def without_version(requirement: str) -> tuple[str, tuple[str, ...]]:
    """(name, extras) of a requirement."""
    name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement).groups()  # type: ignore[union-attr]
    return name.lower(), tuple((extras or "").split(","))


def test_the_constant_is_the_name_in_pyproject() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert install_command("rewards") == 'pip install "srl-envs[rewards]"'
    with pytest.raises(KeyError, match="vllm"):
        install_command("vllm")


def test_no_text_names_the_distribution_of_others() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in texts()
        for pattern in FOREIGN
        for match in pattern.finditer(path.read_text())
    ]
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "pip install srl", 'pip install "srl[train]"', "python -m pip install -U srl==1.0", "uv add srl",
        "f'pip install \"srl[{extra}]\"'", 'metadata.version("srl")', '"srl>=0.1"', "pipx install srl",
        'dependencies = ["numpy", "srl"]', '"srl @ file:///tmp"', "`pip3 install srl`",
    ],
)  # fmt: skip
def test_the_scan_finds(text: str) -> None:
    assert any(pattern.search(text) for pattern in FOREIGN)


@pytest.mark.parametrize(
    "text", ["pip install srl-envs", 'pip install "srl-envs[cli]"', 'row["srl"]', "import srl_envs"]
)
def test_the_scan_lets_pass(text: str) -> None:
    assert not any(pattern.search(text) for pattern in FOREIGN)


def test_every_extra_that_a_text_names_exists() -> None:
    known = {*EXTRAS, "dev"}
    for path in texts():
        for named in re.findall(rf"\b{DISTRIBUTION}\[([\w,-]+)\]", path.read_text()):
            assert set(named.split(",")) <= known, f"{path.relative_to(ROOT)} names [{named}]"


def test_the_packages_write_no_command_by_hand() -> None:
    """A hint that is spelt out is not checked against the extras."""
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            if path.name != "distribution.py":
                assert DISTRIBUTION not in path.read_text(), path


def test_extras_are_those_of_pyproject() -> None:
    declared = {
        extra: tuple(
            MODULE_OF.get(name, name.replace("-", "_"))
            for name, _ in map(without_version, requirements)
            if name != DISTRIBUTION
        )
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra != "dev"
    }
    assert declared == EXTRAS
    for requirements in PROJECT["optional-dependencies"].values():
        for name, extras in map(without_version, requirements):
            assert name != DISTRIBUTION or set(extras) <= set(EXTRAS)
    assert extra_with("torch") == "train"
    assert extra_with("srl_agents") is None


@functools.cache
def imported_by_the_packages() -> set[str]:
    """Top-level modules, also of imports inside functions and of ``import_module("...")``."""
    found: set[str] = set()
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Import(names=names):
                        found |= {name.name.partition(".")[0] for name in names}
                    case ast.ImportFrom(module=str(module), level=0):
                        found.add(module.partition(".")[0])
                    case ast.Call(
                        func=ast.Attribute(attr="import_module"),
                        args=[ast.Constant(value=str(name))],
                    ):
                        found.add(name.partition(".")[0])
    return found


@pytest.mark.slow
def test_every_extra_brings_what_is_used() -> None:
    imported = imported_by_the_packages()
    brought = {module for modules in EXTRAS.values() for module in modules}
    assert brought - imported == set(OTHERS_IMPORT_IT)


@pytest.mark.slow
def test_every_import_is_brought_by_the_core_or_an_extra() -> None:
    core = {"gymnasium", "pettingzoo", "numpy"}
    # they come with torch, openenv, transformers, veRL's and vLLM's environments
    guests = {"jinja2", "prometheus_client", "pydantic", "tqdm", "uvicorn", "verl", "vllm"}
    brought = {module for modules in EXTRAS.values() for module in modules}
    own = {*PRODUCT, *sys.stdlib_module_names}
    assert imported_by_the_packages() - brought - core - own == guests


WITHOUT = """
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
for name in {modules!r}:
    importlib.import_module(name)
from srl_agents.cli.main import main
sys.exit(main(["completion", "bash"]))
"""
BOARD_ROOMS = ("boards", "bundles", "exploits", "pages", "cli")


@pytest.mark.slow
def test_boards_and_completion_need_the_extra_of_commands_only() -> None:
    absent = set(EXTRAS["train"]) - set(EXTRAS["cli"])
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in BOARD_ROOMS
        for path in sorted((ROOT / "leaderboards" / room).rglob("*.py"))
    ]
    code = WITHOUT.format(absent=absent, modules=modules)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "leaderboard" in done.stdout


def test_every_package_says_that_it_is_typed() -> None:
    for package in PRODUCT:
        assert (ROOT / package / "py.typed").is_file()


def test_the_readme_of_the_package_stands_alone() -> None:
    """It is shown where the repository's files are not, so it links to none of them."""
    text = (ROOT / PROJECT["readme"]).read_text()
    assert re.findall(r"\]\((?!https://)|<img|^\[[^\]]+\]:", text, flags=re.MULTILINE) == []
    example, loop = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert "Learner" in loop  # tests/srl_agents/api/test_own_loop.py runs it
    assert example in (ROOT / "README.md").read_text()
    documented = set(re.findall(r"`([\w-]+)`(?=[^\n|]*\|)", text.partition("| extra |")[2]))
    shown = set(re.findall(rf"{DISTRIBUTION}\[([\w-]+)\]", text))
    assert documented | shown == set(EXTRAS)


def test_the_version_is_the_packages_own() -> None:
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", srl_envs.__version__)
