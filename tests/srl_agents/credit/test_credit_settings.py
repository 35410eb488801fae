"""Impossible credit settings fail when they are made, and say what to do."""

from typing import Any

import pytest

from srl_agents.credit.settings import CreditSettings
from srl_envs.errors import ConfigError
from srl_envs.settings import build


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cooperation": 1.5}, "cooperation=1.5: use 0 to 1"),
        ({"competition": -1}, "competition=-1"),
        ({"adaptation_rate": 0}, "adaptation_rate"),
        ({"discount": 0.9}, "set level to 'turn'"),
        ({"estimator": "gae"}, "set level to 'turn'"),
        ({"normalise": "turn"}, "set level to 'turn'"),
        ({"baseline_decay": 1.0}, "baseline_decay"),
        ({"importance_cap": 0}, "importance_cap"),
        ({"importance_level": "sequence"}, "without importance_cap"),
        ({"team_share": "difference"}, "mode 'individual' has no team's term"),
        ({"team_share": "shapley", "mode": "competitive"}, "no team's term"),
        ({"potential": "math:sqrt"}, "sum to a constant; set level to 'turn'"),
        ({"level": "turn", "potential": "nowhere:f"}, "No module named 'nowhere'"),
        ({"level": "turn", "potential": "math"}, "Write package.module:function"),
        ({"level": "turn", "potential": "math:pi"}, "is no function but 3.14"),
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
