"""A package outside this repository adds one of everything, each as one file, and trains with them.

It is in ``outside/``: `outside_kinds` and what an installer leaves beside it. Four of its modules are the
examples of `srl new`. Nothing in this repository names it.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.cli.main import main
from srl_agents.cli.scaffold.packages import KINDS as KINDS_OF_NEW
from srl_agents.cli.scaffold.packages import example
from srl_agents.coordination.settings import COORDINATION, KINDS
from srl_agents.credit.estimators import ESTIMATORS, Earned
from srl_agents.credit.settings import CreditSettings
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.settings import ENGINE, ENGINES, EngineSite
from srl_agents.kinds import Kinds
from srl_agents.league.sampling import SAMPLERS
from srl_agents.models.base_model import BaseModel
from srl_agents.models.digests import version_of
from srl_agents.models.sources import random_model
from srl_agents.rewards.terms import REWARD_SECTION, REWARDS
from srl_agents.testing import (
    check_algorithm,
    check_coordination,
    check_engine,
    check_estimator,
    check_reward,
    check_transport,
)
from srl_agents.trainers.algorithms import ALGORITHMS, TRAINING
from srl_agents.transports.settings import TRANSPORT, TRANSPORTS
from srl_envs.errors import ConfigError
from tests.forked_commands import finish_command, start_function

OUTSIDE = Path(__file__).parent / "outside"
EXAMPLES = {
    "algorithm": "reinforce", "engine": "one_at_a_time", "sampler": "oldest", "transport": "zipped"
}  # fmt: skip
"""Kind of `srl new` -> module that has its example here."""
GAME = "outside_kinds/nearest_number-v0"
FAMILIES: list[tuple[Kinds[Any], str, str]] = [
    (ALGORITHMS, "reinforce", "outside_kinds.reinforce:ReinforceSettings"),
    (KINDS, "averaging", "outside_kinds.averaging:AveragingSettings"),
    (ESTIMATORS, "group_median", "outside_kinds.group_median:GroupMedian"),
    (SAMPLERS, "oldest", "outside_kinds.oldest:oldest"),
    (REWARDS, "brevity", "outside_kinds.brevity:BrevityTerm"),
    (ENGINES, "one_at_a_time", "outside_kinds.one_at_a_time:OneAtATimeSettings"),
    (TRANSPORTS, "zipped", "outside_kinds.zipped:ZippedSettings"),
]
RECIPE = """
name: outside
model: {model}
env: outside_kinds/nearest_number-v0
updates: 2
learners: [alice, bob]
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 1, group_size: 4, max_new_tokens: 6}}
opponents: {{mirror: 0, live: 1, past: 1, past_sampler: {samplers}}}
training: {{algorithm: {algorithms}, learning_rate: 0.01}}
coordination: {{kind: {coordination}, every: 2}}
credit: {{estimator: "{estimators}", estimator_options: {{margin: 0.01}}}}
rewards: {{terms: {{short: {{kind: "{rewards}", weight: 0.5}}}}}}
engine: {{kind: "{engines}"}}
transport: {{kind: "{transports}"}}
evaluation: {{every: 0, final_pairs: 1, bots: [random]}}
snapshot_every: 1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder from which Python imports the package."""
    folder = tmp_path_factory.mktemp("installed") / "site"
    shutil.copytree(OUTSIDE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for kind, module in EXAMPLES.items():
        (folder / f"outside_kinds/{module}.py").write_text(example(KINDS_OF_NEW[kind]))
    return folder


@pytest.fixture
def installed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(place))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("family", "name", "target"), FAMILIES)
def test_a_kind_is_found_by_its_entry_point_and_by_its_place(
    family: Kinds[Any], name: str, target: str
) -> None:
    assert name in family.names()
    assert name not in family.built_in
    assert family.find(name) is family.find(target)


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_the_algorithm_conforms(tmp_path: Path) -> None:
    section = {"algorithm": "reinforce", "learning_rate": 0.01}
    credit = CreditSettings(estimator="group_median")
    check_algorithm(TRAINING.convert(section, "training"), tmp_path, credit=credit)


@pytest.mark.usefixtures("installed")
def test_the_coordination_kind_conforms() -> None:
    check_coordination(COORDINATION.convert({"kind": "averaging"}, "coordination"))


@pytest.mark.usefixtures("installed")
def test_the_estimator_and_the_reward_conform() -> None:
    check_estimator(CreditSettings(estimator="group_median", level="turn"))
    check_reward(REWARD_SECTION.convert({"kind": "brevity", "weight": 0.5}, "rewards.terms.short"))


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_the_transport_conforms(tmp_path: Path) -> None:
    settings = TRANSPORT.convert("zipped", "transport")
    check_transport(lambda folder: settings.make_transport(folder, whole_weights=False), tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_the_engine_conforms(tmp_path: Path) -> None:
    base = BaseModel.load(random_model.build(tmp_path / "model"), lora_rank=4, device="cpu")
    transport = TRANSPORT.convert("zipped", "transport").make_transport(
        tmp_path / "versions", whole_weights=False
    )
    base.add_adapter("alice", seed=0)
    first, second = (
        {key: t + torch.randn(t.shape, generator=torch.Generator().manual_seed(seed))
         for key, t in base.adapter_tensors("alice").items()}
        for seed in (1, 2)
    )  # fmt: skip
    updates = [
        transport.publish(version_of("alice", number, tensors), tensors)
        for number, tensors in enumerate((first, second))
    ]
    gone = replace(updates[0], version=replace(updates[0].version, number=7))
    site = EngineSite(
        base=base,
        sampling=SamplingSettings(max_new_tokens=3),
        batch_rows=1,
        open_update=transport.open,
        folder=tmp_path,
    )
    settings = ENGINE.convert("one_at_a_time", "engine")
    check_engine(lambda: settings.make_engine(site), updates=updates, broken=[gone], requests=3)


def python(place: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """In a process in which the package is installed."""
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{place}:{root}"},
    )  # fmt: skip


@pytest.mark.slow
def test_the_game_is_found_and_conforms(place: Path) -> None:
    checked = python(
        place, "-c", f"from srl_envs.testing import check; check({GAME!r}, episodes=2)"
    )
    assert checked.returncode == 0, checked.stderr


def train_with_it(place: str, recipe: str, folder: str) -> None:
    """A run, the same again, and one that its engine refuses, where the package is installed."""
    sys.path.insert(0, place)
    train = ["train", recipe, "--out"]
    read_back = main([*train, f"{folder}/run"]), main([*train, f"{folder}/run"])
    print([*read_back, main([*train, f"{folder}/other", "--set", "rollout.top_k=5"])])


@pytest.mark.slow
def test_a_run_trains_with_all_of_it(place: Path, tmp_path: Path) -> None:
    """Every other kind is named by its entry point, the rest by place."""
    names = {family.group.rpartition(".")[2]: (name, target) for family, name, target in FAMILIES}
    chosen = {group: pair[number % 2] for number, (group, pair) in enumerate(names.items())}
    recipe = tmp_path / "outside.yaml"
    recipe.write_text(RECIPE.format(model="tiny", **chosen))
    log = tmp_path / "log"
    finish_command(
        start_function(train_with_it, (str(place), str(recipe), str(tmp_path)), log), log
    )
    printed = log.read_text()
    assert printed.splitlines()[-1] == "[0, 0, 2]", printed
    assert "draws from all tokens" in printed
    records = [
        json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    ]
    assert [record["run"].get("averaged") for record in records] == [None, 1.0]
    for values in (record["learners"]["alice"] for record in records):
        assert values["grad_norm"] > 0
        assert values["reward/short"] > 0
    zipped = {path.stem for path in (tmp_path / "run/versions").glob("*.zip")}
    digests = {name.rpartition("-")[2] for name in zipped if "@3-" in name}
    assert len(zipped) > len(digests) == 1  # averaged learners hold equal weights


def test_a_recipe_says_what_is_missing_where_the_package_is_not_installed() -> None:
    with pytest.raises(ConfigError, match=r"training: algorithm: no algorithm 'reinforce'"):
        TRAINING.convert({"algorithm": "reinforce"}, "training")
    with pytest.raises(ConfigError, match=r"no module .nowhere..*PYTHONPATH"):
        TRAINING.convert({"algorithm": "nowhere.reinforce:ReinforceSettings"}, "training")


def test_the_guide_shows_the_file_that_is_tested_here() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/extend.md").read_text()
    shown = guide.split("```python\n")[1].split("```")[0]
    assert shown == (OUTSIDE / "outside_kinds/averaging.py").read_text()
    for family, _, _ in FAMILIES:
        assert f"`{family.group}`" in guide


def test_the_estimator_of_the_guide_is_kept_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/extend.md").read_text()
    code = guide.split("```python\n")[3].split("```")[0]
    assert "(Estimator)" in code
    (tmp_path / "median_of_the_guide.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    settings = CreditSettings(estimator="median_of_the_guide:GroupMedian")
    check_estimator(settings)
    returns_EK = np.array([[3.0], [0.0], [1.0], [2.0], [2.0], [2.0]])  # two groups of three
    earned = Earned(
        rewards_EK=returns_EK,
        returns_EK=returns_EK,
        valid_EK=np.ones((6, 1), dtype=bool),
        group_E=np.array([0, 0, 0, 1, 1, 1]),
        seat_E=np.zeros(6, dtype=np.int64),
        roles_E=(("nim-v0", 0, "alice"),) * 6,
    )
    estimator = ESTIMATORS.find(settings.estimator)(settings, scale=False)
    advantages_EK, silent_EK, _ = estimator.advantages(earned)
    assert advantages_EK[:, 0].tolist() == [2.0, -1.0, 0.0, 0.0, 0.0, 0.0]
    assert silent_EK[:, 0].tolist() == [False] * 3 + [True] * 3
