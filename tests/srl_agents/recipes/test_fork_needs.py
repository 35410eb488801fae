"""A recipe whose estimator needs forks makes them, or is refused in one line."""

import pytest

from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.credit.settings import CreditSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_envs.errors import ConfigError

FORKED = [name for name in ESTIMATORS.built_in if ESTIMATORS.find(name).reads_forks]


@pytest.mark.parametrize("name", FORKED)
def test_an_estimator_on_forks_needs_a_section_that_makes_them(name: str) -> None:
    credit = CreditSettings(estimator=name, level="turn")
    with pytest.raises(
        ConfigError, match=f"estimator='{name}' of nim-v0.*Add a section `forks`"
    ) as error:
        LeagueRecipe(name="r", model="tiny", env="nim-v0", credit=credit)
    assert "\n" not in str(error.value)


def test_an_estimator_that_asks_for_answers_needs_a_game_that_holds_them() -> None:
    credit = CreditSettings(estimator="information_gain", level="turn")
    with pytest.raises(
        ConfigError, match="of nim-v0: it asks how likely the right answer"
    ) as error:
        LeagueRecipe(name="r", model="tiny", env="nim-v0", credit=credit)
    assert "\n" not in str(error.value)
    for game in ("solve_and_verify-v0", "math_duel-v0"):
        with pytest.raises(ConfigError, match="no seat is asked the same question twice"):
            LeagueRecipe(name="r", model="tiny", env=game, credit=credit)
    alone = {"players": 1, "problems": 1}
    recipe = LeagueRecipe(
        name="r", model="tiny", env="solve_and_verify-v0", env_options=alone, credit=credit
    )
    assert recipe.judges_answers
    with pytest.raises(ConfigError, match="ppo reads no advantages"):
        LeagueRecipe(
            name="r", model="tiny", env="solve_and_verify-v0", credit=credit, env_options=alone,
            training=PPOSettings(),
        )  # fmt: skip
