"""Which algorithms there are. Light: a recipe names one before torch is loaded.

A new algorithm is a settings class with its own ``algorithm``, a learner, and a line in each of the
two places below.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING, Any

from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.ppo_settings import PPOSettings

if TYPE_CHECKING:
    from srl_agents.models.base_model import BaseModel
    from srl_agents.trainers.learner import AdapterLearner

TrainingSettings = GRPOSettings | PPOSettings | DPOSettings
"""What a recipe's ``training`` section is read as: its ``algorithm`` selects the class."""

_LEARNERS = {
    "grpo": "srl_agents.trainers.grpo:GRPOLearner",
    "ppo": "srl_agents.trainers.ppo:PPOLearner",
    "dpo": "srl_agents.trainers.dpo:DPOLearner",
}


def make_learner(
    name: str, base: BaseModel, settings: TrainingSettings, *, temperature: float, seed: int
) -> AdapterLearner[Any]:
    """The learner of the settings' algorithm.

    Args:
        name: of its adapter, which is added if it does not exist.
        base: the shared base.
        settings: of the updates.
        temperature: at which rows are sampled.
        seed: of a new adapter's weights.

    Raises:
        ConfigError: the algorithm cannot work with this temperature or base.
    """
    learner: AdapterLearner[Any] = pkgutil.resolve_name(_LEARNERS[settings.algorithm])(
        name, base, settings, temperature, seed
    )
    return learner
