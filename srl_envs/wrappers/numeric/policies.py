"""Trained numeric policies as text policies, for any seat beside any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_envs.registry import Policy
from srl_envs.wrappers.numeric.features import Features

Chooser = Callable[[NDArray[np.float32], NDArray[np.bool_]], int]
"""(values, mask) -> the number of an action."""


def text_policy(choose: Chooser, features: Features) -> Policy:
    """A ``text -> text`` policy: reads the text, lets ``choose`` choose, writes the reply.

    It reads only what the text holds; `srl_envs.play` takes it in any seat.

    Args:
        choose: for a model of Stable-Baselines3, from `sb3_chooser`.
        features: `features_of` an environment with the same options as the one to be played.
    """

    def act(text: str) -> str:
        reading = features.read(text)
        return features.reply(choose(reading.values, reading.mask))

    return act


def sb3_chooser(
    model: Any, *, rng: np.random.Generator | None = None, masked: bool = True
) -> Chooser:
    """What a model of Stable-Baselines3 or sb3-contrib does.

    Args:
        model: `MaskablePPO`, or with ``masked=False`` any model with discrete actions and ``predict``.
        rng: draws from the policy's probabilities, apart from any other generator (`MaskablePPO`
            only); None takes the likeliest action.
        masked: tell the model which actions are legal.
    """
    if rng is None:

        def likeliest(values: NDArray[np.float32], mask: NDArray[np.bool_]) -> int:
            mask_option = {"action_masks": mask} if masked else {}
            number, _ = model.predict(values, deterministic=True, **mask_option)
            return int(number)

        return likeliest

    def drawn(values: NDArray[np.float32], mask: NDArray[np.bool_]) -> int:
        chances = sb3_probabilities(model, values, mask)
        return int(np.searchsorted(np.cumsum(chances), rng.random() * chances.sum(), side="right"))

    return drawn


def sb3_probabilities(
    model: Any, values: NDArray[np.float32], mask: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(actions,) probabilities of a `MaskablePPO`; 0 where the mask is False."""
    observation, _ = model.policy.obs_to_tensor(values)
    distribution = model.policy.get_distribution(observation, action_masks=mask[None])
    chances = distribution.distribution.probs.detach().cpu().numpy()[0].astype(np.float64)
    return np.where(mask, chances, 0.0)
