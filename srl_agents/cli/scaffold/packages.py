"""The files of a new package; its module is an example that a test runs, and that a guide may show."""

from __future__ import annotations

import ast
import importlib
import json
import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from importlib.resources import files as package_files
from pathlib import Path

from srl_agents.cli.documentation.topics import find
from srl_agents.cli.scaffold.openenv_package import openenv_files
from srl_agents.coordination.settings import KINDS as COORDINATIONS
from srl_agents.engines.settings import ENGINES
from srl_agents.league.sampling import SAMPLERS
from srl_agents.rewards.terms import REWARDS
from srl_agents.trainers.algorithms import ALGORITHMS
from srl_agents.transports.settings import TRANSPORTS
from srl_envs.distribution import DISTRIBUTION
from srl_envs.errors import ConfigError, nearest


@dataclass(frozen=True)
class NewKind:
    """A kind of package that `srl new` can make."""

    article: str
    topic: str
    """The guide about it."""
    example: str
    """Name of the class or function that becomes the new one; empty where the package has no code."""
    ending: str
    """What the new class's name ends in."""
    group: str
    """Group of entry points; empty where the package's name is enough."""
    extra: str
    """Extra of SRL that its test needs."""
    test: str
    """Body of the test's module; MODULE, CLASS and NAME stand for the new names."""
    use: str
    """Line of its page that uses it, with the same words."""
    settings: bool = False
    """Whether the entry point is the class CLASSSettings."""
    file: str = ""
    """The example in ``examples``; empty where the guide shows it."""
    word: str = ""
    """Name of the kind within the example."""


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
        use=(
            "    srl envs NAME/NAME-v0\n    srl play NAME/NAME-v0 human middle\n"
            '    srl_envs.make("NAME/NAME-v0")'
        ),
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
        use="    rewards: {terms: {mine: {kind: NAME, word: please, weight: 0.1}}}",
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
        use="    coordination: {kind: NAME}",
        settings=True,
        word="averaging",
    ),
    "algorithm": NewKind(
        article="an",
        topic="extend",
        example="Reinforce",
        ending="",
        group="srl_agents.algorithms",
        extra="train",
        test="""from pathlib import Path

from srl_agents.testing import check_algorithm
from srl_agents.trainers.algorithms import TRAINING


def test_the_algorithm_keeps_its_contract(tmp_path: Path) -> None:
    section = {"algorithm": "NAME", "learning_rate": 0.01}
    check_algorithm(TRAINING.convert(section, "training"), tmp_path)
""",
        use="    training: {algorithm: NAME, learning_rate: 0.001}",
        settings=True,
        file="algorithm.py",
        word="reinforce",
    ),
    "sampler": NewKind(
        article="a",
        topic="extend",
        example="oldest",
        ending="",
        group="srl_agents.samplers",
        extra="train",
        test="""from MODULE import NAME
from srl_agents.league.sampling import OpponentView, find_sampler


def test_recipes_take_the_sampler() -> None:
    find_sampler("NAME", {"floor": 0.2})


def test_the_first_version_is_met_most_and_none_is_left_out() -> None:
    chances = NAME(OpponentView.unplayed(("a", "b", "c", "d")), floor=0.2)
    assert chances.argmax() == 0
    assert chances.min() > 0
    assert abs(chances.sum() - 1) < 1e-9
""",
        use="    opponents: {past_sampler: NAME, sampler_options: {floor: 0.2}}",
        file="sampler.py",
        word="oldest",
    ),
    "engine": NewKind(
        article="an",
        topic="extend",
        example="OneAtATime",
        ending="",
        group="srl_agents.engines",
        extra="train",
        test="""from dataclasses import replace
from pathlib import Path

import torch

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.settings import ENGINE, EngineSite
from srl_agents.models.base_model import BaseModel
from srl_agents.models.digests import version_of
from srl_agents.testing import check_engine
from srl_agents.transports.settings import TRANSPORT


def test_the_engine_keeps_its_contract(tmp_path: Path) -> None:
    base = BaseModel.load("tiny", lora_rank=4, device="cpu")
    base.add_adapter("alice", seed=0)
    transport = TRANSPORT.convert("files", "transport").make_transport(
        tmp_path, whole_weights=False
    )
    updates = []
    for number in (1, 2):
        random = torch.Generator().manual_seed(number)
        tensors = {
            key: tensor + torch.randn(tensor.shape, generator=random)
            for key, tensor in base.adapter_tensors("alice").items()
        }
        updates.append(transport.publish(version_of("alice", number, tensors), tensors))
    gone = replace(updates[0], version=replace(updates[0].version, number=7))
    site = EngineSite(
        base=base,
        sampling=SamplingSettings(max_new_tokens=3),
        batch_rows=1,
        open_update=transport.open,
        folder=tmp_path,
    )
    settings = ENGINE.convert("NAME", "engine")
    check_engine(lambda: settings.make_engine(site), updates=updates, broken=[gone], requests=3)
""",
        use="    engine: {kind: NAME}",
        settings=True,
        file="engine.py",
        word="one_at_a_time",
    ),
    "transport": NewKind(
        article="a",
        topic="extend",
        example="Zipped",
        ending="",
        group="srl_agents.transports",
        extra="train",
        test="""from pathlib import Path

from srl_agents.testing import check_transport
from srl_agents.transports.settings import TRANSPORT


def test_the_transport_keeps_its_contract(tmp_path: Path) -> None:
    settings = TRANSPORT.convert("NAME", "transport")
    check_transport(lambda folder: settings.make_transport(folder, whole_weights=False), tmp_path)
""",
        use="    transport: {kind: NAME, level: 6}",
        settings=True,
        file="transport.py",
        word="zipped",
    ),
    "taskset": NewKind(
        article="a",
        topic="neighbours",
        example="",
        ending="",
        group="",
        extra="verifiers",
        test="""import NAME
import verifiers.v1 as vf
from srl_envs.adapters.verifiers import SRLEnvConfig


def test_verifiers_finds_the_games_by_the_name_of_the_package() -> None:
    config = SRLEnvConfig(
        taskset={"id": "NAME", "game": "nim-v0", "split": "eval"}, bots={"player_1": "middle"}
    )
    env = vf.load_environment(config)
    assert isinstance(env, NAME.SRLEnv)
    assert len(list(env.taskset.take(3))) == 3
""",
        use=(
            "    vf-eval NAME --env.taskset.game nim-v0 --env.bots.player-1 middle -n 20\n\n"
            "verifiers, and trainers on it such as prime-rl, play any game of SRL with it"
        ),
    ),
    "openenv": NewKind(  # its files are in openenv_package, for OpenEnv reads another layout
        article="an",
        topic="neighbours",
        example="",
        ending="",
        group="",
        extra="openenv",
        test="",
        use="",
    ),
    "protocol": NewKind(
        article="a",
        topic="submit_to_a_leaderboard",
        example="",
        ending="",
        group="leaderboards.protocols",
        extra="cli",
        test="""from pathlib import Path

from leaderboards.cli import main
from leaderboards.protocol import check_environment, load_protocol

PROTOCOL = "nim-v0.NAME"


def test_it_is_frozen_and_fits_its_environment() -> None:
    check_environment(load_protocol(PROTOCOL))


def test_its_references_are_played_bundled_and_verified(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["run", PROTOCOL, "--seeds", "1", "--out", str(run)]) == 0
    assert main(["bundle", str(run)]) == 0
    verify = ["verify", str(run / "bundles"), "--level", "L2", "--workers", "0"]
    assert main(verify) == 0
""",
        use=(
            "    srl leaderboard run nim-v0.NAME --out runs/mine\n\nChange "
            "`NAME/protocols/nim-v0.NAME.json`, raise its `version`, then freeze it:\n\n"
            "    python -m leaderboards.freeze NAME/protocols"
        ),
    ),
}
"""Kinds by the word of the command."""

_BOTS = """import re
from collections.abc import Callable

import numpy as np


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    \"\"\"Names any number.\"\"\"
    return lambda text: f"<action>{rng.integers(1, 10)}</action>"


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    \"\"\"Reads the range, and names a number near its middle.\"\"\"

    def reply(text: str) -> str:
        low, high = map(int, re.findall(r"from (\\d+) to (\\d+)", text)[-1])
        return f"<action>{(low + high) // 2 + rng.integers(-1, 2)}</action>"

    return reply
"""
_REGISTRATION = """import srl_envs

srl_envs.register(
    id="NAME/NAME-v0",
    entry_point="MODULE:CLASS",
    mode="competitive",
    bots={"random": "NAME.bots:random_bot", "middle": "NAME.bots:middle_bot"},
)
"""
_TASKSET = """
from srl_envs.adapters.verifiers import SRLEnv, SRLTaskset

__all__ = ["SRLEnv", "SRLTaskset"]
"""
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
    if kind == "protocol":
        importlib.import_module("leaderboards.freeze").freeze(folder / name / "protocols")
    return folder


def files(kind: str, name: str) -> Mapping[str, str]:
    """Path -> text."""
    made = KINDS[kind]
    title = _title(kind, name)
    if kind == "openenv":
        return openenv_files(name, title)
    module = f"{name}.{'game' if kind == 'env' else kind}"
    names = {"MODULE": module, "CLASS": title, "NAME": name}
    start = f'"""{name}: {made.article} {kind} for SRL."""\n'
    package = {
        "pyproject.toml": _project(made, kind, name, title),
        "README.md": _page(made, kind, name, _filled(made.use, names), title),
        f"{name}/__init__.py": start + (_TASKSET if kind == "taskset" else ""),
        f"tests/test_{name}.py": _filled(made.test, names),
    }
    if made.example:
        code = example(made).replace(made.example, title)
        code = code.replace(made.word, name) if made.word else code
        docstring = "" if code.startswith('"""') else f"{start}\n"
        package[f"{module.replace('.', '/')}.py"] = f"{docstring}{code}"
    if kind == "env":
        package[f"{name}/bots.py"] = f'"""{name}: policies to play against."""\n\n{_BOTS}'
        package[f"{name}/environments.py"] = (
            '"""Registers the game; SRL imports this module by its entry point."""\n\n'
            f"{_filled(_REGISTRATION, names)}"
        )
    if kind == "protocol":
        package[f"{name}/protocols/nim-v0.{name}.json"] = _protocol(f"nim-v0.{name}")
    return package


def _protocol(name: str) -> str:
    """SRL's protocol of nim with fewer seeds and shorter replies."""
    ours = package_files("leaderboards") / "protocols/nim-v0.json"
    protocol = json.loads(ours.read_text(encoding="utf-8"))
    protocol |= {"name": name, "version": 1, "seeds": 16}
    protocol["decoding"]["max_new_tokens"] = 32
    return json.dumps(protocol, indent=1, allow_nan=False) + "\n"


def example(kind: NewKind) -> str:
    """The file of examples, or the guide's block of Python without the comment that names a file."""
    if kind.file:
        text = package_files("srl_agents.cli.scaffold") / "examples" / kind.file
        return text.read_text(encoding="utf-8")
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
    if not made.example:
        return ""
    for known in (ALGORITHMS, COORDINATIONS, ENGINES, REWARDS, SAMPLERS, TRANSPORTS):
        if known.group == made.group and name in known.names():
            return f"recipes already know {made.article} {known.what} of this name"
    nodes = [*ast.walk(ast.parse(example(made)))]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.name for node in nodes if isinstance(node, (ast.alias, ast.ClassDef))}
    used -= {made.example, f"{made.example}Settings"}
    if keyword.iskeyword(title) or {title, f"{title}Settings"} & used:
        return f"the class would be {title}, which its module needs for something else"
    return ""


def _title(kind: str, name: str) -> str:
    """Name of the class of a package, or of its function."""
    if KINDS[kind].example.islower():
        return name
    return "".join(part.capitalize() for part in name.split("_")) + KINDS[kind].ending


def _filled(text: str, names: Mapping[str, str]) -> str:
    for word, value in names.items():
        text = text.replace(word, value)
    return text


def _project(made: NewKind, kind: str, name: str, title: str) -> str:
    target = f"{name}.{kind}:{title}{'Settings' * made.settings}"
    target = {"env": f"{name}.environments", "protocol": f"{name}.protocols"}.get(kind, target)
    entry = f'[project.entry-points."{made.group}"]\n{name} = "{target}"\n\n' if made.group else ""
    data = f'\n[tool.setuptools.package-data]\n{name} = ["protocols/*.json"]\n'
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

{entry}[tool.setuptools]
packages = ["{name}"]
{data * (kind == "protocol")}"""


def _page(made: NewKind, kind: str, name: str, use: str, title: str) -> str:
    what = f"`{title}`" if made.example else f"a {kind}"
    return f"""# {name}

{made.article.capitalize()} {kind} for SRL. Installed, it is found by its name:

{use}

`pip install --editable '.[test]'` installs it with what its test needs. `pytest` runs the kit that every
{kind} of SRL passes; `srl docs {made.topic}` explains what {what} has to keep.
"""
