"""Impossible credit settings fail when they are made, with advice."""

from typing import Any

import pytest

from srl_agents.credit.estimators import Advantages, Earned, Estimator
from srl_agents.credit.settings import CreditSettings
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build, dump


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cooperation": 1.5}, "cooperation=1.5: use 0 to 1"),
        ({"competition": -1}, "competition=-1"),
        ({"discount": 0.9}, "set level to 'turn'"),
        ({"estimator": "gae"}, "set level to 'turn'"),
        ({"normalise": "turn"}, "set level to 'turn'"),
        ({"importance_cap": 0}, "importance_cap"),
        ({"importance_level": "sequence"}, "without importance_cap"),
        ({"team_share": "difference"}, "mode 'individual' has no team's term"),
        ({"team_share": "shapley", "mode": "competitive"}, "no team's term"),
        ({"potential": "math:sqrt"}, "sum to a constant; set level to 'turn'"),
        ({"level": "turn", "potential": "nowhere:f"}, "no module 'nowhere'"),
        ({"level": "turn", "potential": "math"}, "Write package.module:function"),
        ({"level": "turn", "potential": "math:pi"}, "is not a function of"),
    ],
)
def test_impossible_values_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CreditSettings(**settings)


def test_recipes_name_the_nearest_key_and_value() -> None:
    built = build(
        CreditSettings, {"mode": "mixed", "discount": 0.9, "level": "turn"}, "r.yaml: credit"
    )
    assert built == CreditSettings(mode="mixed", discount=0.9, level="turn")
    with pytest.raises(ConfigError, match="Did you mean 'cooperation'"):
        build(CreditSettings, {"cooperaton": 0.5}, "r.yaml: credit")
    with pytest.raises(ConfigError, match="Did you mean 'adaptive'"):
        build(CreditSettings, {"mode": "adaptiv"}, "r.yaml: credit")


def test_an_estimator_of_another_package_reads_its_own_options() -> None:
    own = CreditSettings(estimator=f"{__name__}:Whole", estimator_options={"times": 2.0})
    assert build(CreditSettings, dump(own), "credit") == own
    with pytest.raises(ConfigError, match="estimator 'group' does not read it; leave it out"):
        CreditSettings(estimator_options={"times": 2.0})
    with pytest.raises(ConfigError, match="Did you mean 'leave_one_out'"):
        CreditSettings(estimator="leave_one_ou")
    with pytest.raises(ConfigError, match="lacks advantages"):
        CreditSettings(estimator=f"{__name__}:Nothing")


class Whole(Estimator):
    """Returns as they are."""

    reads = ("estimator_options",)

    def advantages(self, earned: Earned) -> Advantages:
        times = self.settings.estimator_options["times"]
        return times * earned.returns_EK, ~earned.valid_EK, {}


class Nothing(Estimator):
    """Not finished."""
