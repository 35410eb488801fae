"""Built-in algorithms keep what the kit asks, and one that breaks a promise is found by its name."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.credit.by_game import Credit
from srl_agents.credit.settings import CreditSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch
from srl_agents.testing import check_algorithm
from srl_agents.trainers.algorithms import ALGORITHMS, AlgorithmSettings
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.experience import AdvantageRows, Teachers
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_envs.errors import ConfigError
from srl_envs.testing import ConformanceError

SETTINGS = [
    GRPOSettings(learning_rate=1e-2),
    PPOSettings(learning_rate=1e-2),
    DPOSettings(learning_rate=1e-2),
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.algorithm)
def test_built_in_algorithms_conform(settings: AlgorithmSettings, tmp_path: Path) -> None:
    check_algorithm(settings, tmp_path)


def test_every_built_in_algorithm_is_held_to_the_kit() -> None:
    assert {settings.algorithm for settings in SETTINGS} == set(ALGORITHMS.built_in)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["dapo", "dr_grpo", "gspo", "cispo"])
def test_every_variant_conforms(variant: Any, tmp_path: Path) -> None:
    check_algorithm(GRPOSettings(variant=variant, learning_rate=1e-2), tmp_path)


@pytest.mark.slow
def test_rloo_conforms_with_the_credit_that_it_needs(tmp_path: Path) -> None:
    settings = GRPOSettings(variant="rloo", learning_rate=1e-2)
    with pytest.raises(ConformanceError, match=r"set credit\.estimator"):
        check_algorithm(settings, tmp_path / "without")
    check_algorithm(settings, tmp_path, credit=CreditSettings(estimator="leave_one_out"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken(GRPOSettings):
    """GRPO with one fault."""

    algorithm: Any = "broken"
    learning_rate: float = 1e-2
    fault: str = ""

    def make_learner(
        self, name: str, base: BaseModel, *, temperature: float, seed: int
    ) -> GRPOLearner:
        learner: GRPOLearner = LEARNERS.get(self.fault, GRPOLearner)(
            name, base, self, temperature, seed
        )
        return learner

    def make_experience(
        self, learners: Mapping[str, Any], credit: Credit, teachers: Teachers
    ) -> AdvantageRows:
        return Others(learners, credit, teachers) if self.fault == "others" else AdvantageRows(
            learners, credit, teachers
        )  # fmt: skip

    def check(self, plan: Any) -> None:
        if self.fault == "picky":
            raise ConfigError("not today.")


class Others(AdvantageRows):
    """Marks all rows as bob's."""

    def batch(self, learner: str, *args: Any) -> Any:
        batch, values = super().batch(learner, *args)
        return None if batch is None else replace(batch, learner="bob"), values


class Restless(GRPOLearner):
    """Draws noise from the process's generator."""

    def _backward(self, batch: TrainingBatch) -> tuple[float, dict[str, float]]:
        loss, metrics = super()._backward(batch)
        for parameter in self._parameters:
            assert parameter.grad is not None
            parameter.grad += 1e-3 * torch.randn_like(parameter)
        return loss, metrics


class Remembering(GRPOLearner):
    """Goes slower and slower, and does not write down how slow."""

    speed = 1.0

    def apply_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = torch.full_like(parameter, self.speed)
        self.speed = -self.speed
        super().apply_gradients()


class Hasty(GRPOLearner):
    """Steps while it computes gradients."""

    def _backward(self, batch: TrainingBatch) -> tuple[float, dict[str, float]]:
        found = super()._backward(batch)
        with torch.no_grad():
            for parameter in self._parameters:
                assert parameter.grad is not None
                parameter.sub_(1e-3 * parameter.grad)
        return found


class Idle(GRPOLearner):
    """Learns nothing."""

    def _backward(self, batch: TrainingBatch) -> tuple[float, dict[str, float]]:
        rows = batch.advantages_RT
        return super()._backward(
            TrainingBatch(**{f: getattr(batch, f) for f in batch.__dataclass_fields__}
                          | {"advantages_RT": np.zeros_like(rows)})
        )  # fmt: skip


class Meddling(GRPOLearner):
    """Moves bob as well."""

    def apply_gradients(self) -> None:
        super().apply_gradients()
        moved = {key: t + 1e-3 for key, t in self.base.adapter_tensors("bob").items()}
        self.base.set_adapter_tensors("bob", moved)


LEARNERS: dict[str, Any] = {
    "restless": Restless, "remembering": Remembering, "hasty": Hasty, "idle": Idle,
    "meddling": Meddling,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("picky", "settings: raises ConfigError: not today"),
        ("others", "batch: a batch for 'alice' names 'bob'"),
        ("restless", "repetition: equal seeds"),
        ("hasty", "gradient: compute_gradients moved the weights"),
        ("idle", "gradient: the gradient is 0"),
        ("meddling", "neighbours: 'bob' moved"),
        ("remembering", "resume: a resumed run goes on otherwise"),
    ],
)
def test_a_broken_algorithm_is_found(fault: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match=message):
        check_algorithm(Broken(fault=fault), tmp_path)
