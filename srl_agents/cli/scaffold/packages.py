"""The files of a new package; its module is the example that a guide shows and a test runs."""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

from srl_agents.cli.documentation.topics import find
from srl_agents.coordination.settings import KINDS as COORDINATIONS
from srl_agents.rewards.terms import REWARDS
from srl_envs.distribution import DISTRIBUTION
from srl_envs.errors import ConfigError, nearest


@dataclass(frozen=True)
class NewKind:
    """A kind of package that `srl new` can make."""

    article: str
    topic: str
    """The guide with its example."""
    example: str
    """Name of the class in the guide."""
    ending: str
    """What the new class's name ends in."""
    group: str
    """Group of entry points."""
    extra: str
    """Extra of SRL that its test needs."""
    test: str
    """Body of the test's module; MODULE, CLASS and NAME stand for the new names."""


KINDS: dict[str, NewKind] = {
    "env": NewKind(
        article="an",
        topic="write_an_environment",
        example="Guess",
        ending="",
        group="srl_envs.environments",
        extra="",
        test="""import srl_envs
from srl_envs.testing import check


def test_the_game_keeps_its_contract() -> None:
    check("NAME/NAME-v0", episodes=2)


def test_it_is_played_by_name() -> None:
    env = srl_envs.make("NAME/NAME-v0")
    episode = srl_envs.play(env, {0: lambda _: "<action>5</action>", 1: lambda _: "5?"}, seed=1)
    assert sum(episode.outcomes) == 0
""",
    ),
    "reward": NewKind(
        article="a",
        topic="rewards",
        example="Mentions",
        ending="Term",
        group="srl_agents.rewards",
        extra="train",
        test="""from MODULE import CLASS
from srl_agents.testing import check_reward


def test_the_reward_keeps_its_contract() -> None:
    check_reward(CLASS(kind="NAME", word="please", weight=0.1))
""",
    ),
    "coordination": NewKind(
        article="a",
        topic="extend",
        example="Averaging",
        ending="",
        group="srl_agents.coordination",
        extra="train",
        test="""from MODULE import CLASSSettings
from srl_agents.testing import check_coordination


def test_the_kind_keeps_its_contract() -> None:
    check_coordination(CLASSSettings(kind="NAME"))
""",
    ),
}
"""Kinds by the word of the command."""

_TAKEN = {*sys.stdlib_module_names, "srl_envs", "srl_agents", "leaderboards", "test", "tests"}
"""Names with another meaning, whatever is installed; a package's own tests lie in ``tests``."""


def write(kind: str, name: str, out: Path) -> Path:
    """Write a package and return its folder.

    Raises:
        ConfigError: the kind is unknown, the name cannot be imported or is taken, or the folder exists.
    """
    if kind not in KINDS:
        raise ConfigError(
            f"no kind {kind!r}.{nearest(kind, KINDS)} There are {', '.join(KINDS)}; `srl docs extend` has "
            "the others, each one file."
        )
    if not re.fullmatch(r"[a-z]([a-z0-9_]{0,60}[a-z0-9])?", name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name[:80]!r} names no package: use small letters, digits and _ inside, as trade_winds."
        )
    folder = out / name
    if folder.exists():
        raise ConfigError(f"{folder} exists. Give another NAME, or --out FOLDER.")
    if meaning := _taken(KINDS[kind], name, _title(kind, name)):
        raise ConfigError(f"{name!r} is taken: {meaning}.")
    for path, text in files(kind, name).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def files(kind: str, name: str) -> Mapping[str, str]:
    """Path -> text."""
    made = KINDS[kind]
    title = _title(kind, name)
    module = f"{name}.{'game' if kind == 'env' else kind}"
    names = {"MODULE": module, "CLASS": title, "NAME": name}
    start = f'"""{name}: {made.article} {kind} for SRL."""\n'
    code = example(made).replace(made.example, title).replace("averaging", name)
    docstring = "" if code.startswith('"""') else f"{start}\n"
    package = {
        "pyproject.toml": _project(made, kind, name, title),
        "README.md": _page(made, kind, name, title),
        f"{name}/__init__.py": start,
        f"{module.replace('.', '/')}.py": f"{docstring}{code}",
        f"tests/test_{name}.py": _filled(made.test, names),
    }
    if kind == "env":
        package[f"{name}/environments.py"] = (
            '"""Registers the game; SRL imports this module by its entry point."""\n\nimport srl_envs\n\n'
            f'srl_envs.register(\n    id="{name}/{name}-v0",\n    entry_point="{module}:{title}",\n'
            '    mode="competitive",\n)\n'
        )
    return package


def example(kind: NewKind) -> str:
    """The guide's block of Python that defines the kind's class, without the comment that names a file."""
    page = find(f"guides/{kind.topic}").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    found = next(
        block for block in blocks if re.search(rf"^class {kind.example}\b", block, re.MULTILINE)
    )
    return re.sub(r"\A# \S+\n", "", found)


def _taken(made: NewKind, name: str, title: str) -> str:
    """What the name of a package, or of its class, means already; empty where it is free."""
    if name in _TAKEN or name in packages_distributions():
        return f"`import {name}` already means another package"
    for known in (REWARDS, COORDINATIONS):
        if known.group == made.group and name in known.names():
            return f"recipes already know a {known.what} of this name"
    nodes = [*ast.walk(ast.parse(example(made)))]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.name for node in nodes if isinstance(node, (ast.alias, ast.ClassDef))}
    used -= {made.example, f"{made.example}Settings"}
    if keyword.iskeyword(title) or {title, f"{title}Settings"} & used:
        return f"the class would be {title}, which its module needs for something else"
    return ""


def _title(kind: str, name: str) -> str:
    """Name of the class of a package."""
    return "".join(part.capitalize() for part in name.split("_")) + KINDS[kind].ending


def _filled(text: str, names: Mapping[str, str]) -> str:
    for word, value in names.items():
        text = text.replace(word, value)
    return text


def _project(made: NewKind, kind: str, name: str, title: str) -> str:
    target = f"{name}.environments" if kind == "env" else f"{name}.{kind}:{title}"
    if kind == "coordination":
        target += "Settings"
    needed = f"{DISTRIBUTION}[{made.extra}]" if made.extra else DISTRIBUTION
    return f"""[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name.replace("_", "-")}"
version = "0.1.0"
description = "{made.article.capitalize()} {kind} for SRL"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["{needed}"]

[project.optional-dependencies]
test = ["pytest>=8"]

[project.entry-points."{made.group}"]
{name} = "{target}"

[tool.setuptools]
packages = ["{name}"]
"""


def _page(made: NewKind, kind: str, name: str, title: str) -> str:
    use = {
        "env": f'    srl envs {name}/{name}-v0\n    srl_envs.make("{name}/{name}-v0")',
        "reward": f"    rewards: {{terms: {{mine: {{kind: {name}, word: please, weight: 0.1}}}}}}",
        "coordination": f"    coordination: {{kind: {name}}}",
    }[kind]
    return f"""# {name}

{made.article.capitalize()} {kind} for SRL. Installed, it is found by its name:

{use}

`pytest` runs the kit that every {kind} of SRL passes; `srl docs {made.topic}` explains what
`{title}` has to keep.
"""
