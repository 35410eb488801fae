"""Built-in estimators keep what the kit asks, and one that breaks a promise is found by its name."""

from typing import Any

import numpy as np
import pytest

from srl_agents.credit.estimators import ESTIMATORS, Advantages, Earned, Estimator
from srl_agents.credit.settings import CreditSettings
from srl_agents.testing import check_estimator
from srl_envs.errors import ConfigError
from srl_envs.testing import ConformanceError


@pytest.mark.parametrize("level", ["episode", "turn"])
@pytest.mark.parametrize("name", ESTIMATORS.built_in)
def test_built_in_estimators_conform(name: str, level: Any) -> None:
    if level == "turn" or not ESTIMATORS.find(name).needs_turns:
        check_estimator(CreditSettings(estimator=name, level=level))


class Rewarding(Estimator):
    """Praises failed episodes."""

    def advantages(self, earned: Earned) -> Advantages:
        return earned.returns_EK, np.zeros(earned.valid_EK.shape, dtype=bool), {}


def test_a_class_in_place_of_settings_is_answered_with_the_call() -> None:
    with pytest.raises(
        ConfigError, match=r"CreditSettings\(estimator='.*test_estimator_kit:Rewarding'\)"
    ):
        check_estimator(Rewarding)  # type: ignore[arg-type]


class Writing(Estimator):
    """Centres its inputs in place, though they are to be read only."""

    def advantages(self, earned: Earned) -> Advantages:
        earned.returns_EK[...] -= earned.returns_EK.mean()
        return earned.returns_EK, ~earned.valid_EK, {}


class Forgetting(Estimator):
    """Fades, and does not write down how far."""

    scale_now = 1.0

    def advantages(self, earned: Earned) -> Advantages:
        self.scale_now /= 2
        return self.scale_now * earned.returns_EK, ~earned.valid_EK, {}


class Mixing(Estimator):
    """One running mean for everybody."""

    mean = 0.0

    def advantages(self, earned: Earned) -> Advantages:
        found = earned.returns_EK - self.mean
        self.mean = float(earned.returns_EK[earned.valid_EK].mean())
        return found, ~earned.valid_EK, {}

    def state(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def load_state(self, state: Any) -> None:
        self.mean = state["mean"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("Rewarding", "form: turns of failed episodes are not left out"),
        ("Writing", "reading: returns_EK was changed in place"),
        ("Forgetting", "state: update 4 of a resumed run"),
        ("Mixing", "learners: what another learner earned"),
    ],
)
def test_a_broken_estimator_is_found(broken: str, message: str) -> None:
    with pytest.raises(ConformanceError, match=message):
        check_estimator(CreditSettings(estimator=f"{__name__}:{broken}", level="turn"))
