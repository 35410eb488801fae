"""Per-token corrections of advantages: for tokens of an older policy, and from a teacher.

Axes: ``R`` rows, ``T`` tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.batches import same_shape
from srl_envs.errors import ConfigError

Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Teaching:
    """Whose opinion of a learner's tokens counts, and how much; see `teacher_advantages`."""

    teacher: str
    weight: float
    limit: float


def importance_weights(
    now_RT: Floats,
    sampled_RT: Floats,
    mask_RT: Flags,
    *,
    cap: float,
    level: Literal["token", "sequence"] = "token",
) -> Floats:
    """Truncated importance weights min(p_now / p_sampler, cap) of tokens from an older policy.

    Multiply the advantages by them, and give the trainer ``now_RT`` as its old log-probabilities:
    its clipping then bounds this update, the weight corrects for the age of the sample.

    Args:
        now_RT: (R, T) log-probabilities under the policy before the update.
        sampled_RT: (R, T) under the policy that sampled them.
        mask_RT: (R, T) True for tokens that count.
        cap: largest weight; above 0. Truncation trades variance for bias towards the sampler.
        level: one ratio per token, or one per row: the product over its tokens.

    Returns:
        (R, T) weights in [0, cap]; 0 where masked.

    Raises:
        ShapeError: the arrays differ in shape.
        ConfigError: cap is not above 0.

    Source: "Truncated importance sampling", doi:10.1198/106186008X320456; for old policies
    arXiv:1802.01561 (rho-bar) and arXiv:2505.24298 (behaviour and proximal policy apart).
    """
    same_shape(2, now_RT=now_RT, sampled_RT=sampled_RT, mask_RT=mask_RT)
    if not cap > 0:
        raise ConfigError(f"cap={cap}: every weight would be 0; use more than 0.")
    log_ratio_RT = np.where(mask_RT, now_RT - sampled_RT, 0.0)
    if level == "sequence":
        log_ratio_RT = np.broadcast_to(log_ratio_RT.sum(axis=1, keepdims=True), now_RT.shape)
    # cut before exp: a ratio of e^800 is infinite
    weights_RT: Floats = np.exp(np.minimum(log_ratio_RT, np.log(cap)))
    return np.where(mask_RT, weights_RT, 0.0)


def teacher_advantages(
    student_RT: Floats, teacher_RT: Floats, mask_RT: Flags, *, weight: float, limit: float = 5.0
) -> Floats:
    """Advantages that pull a student towards a teacher on the student's own tokens.

    The gradient of KL(student || teacher) over tokens that the student sampled is the policy
    gradient of the reward log p_teacher - log p_student, each token paid only for itself.

    Args:
        student_RT: (R, T) log-probabilities under the student.
        teacher_RT: (R, T) under the teacher, of the same tokens.
        mask_RT: (R, T) True for tokens that count.
        weight: of the divergence in the objective; 0 gives no influence.
        limit: nats; a token that the teacher finds impossible must not drown the rest.

    Returns:
        (R, T) to add to the advantages: weight * (log p_teacher - log p_student), cut at +-limit
        before weighing; 0 where masked.

    Raises:
        ShapeError: the arrays differ in shape.

    Source: arXiv:2306.13649 section 3 (on-policy distillation); arXiv:2306.08543 equation 2.
    """
    same_shape(2, student_RT=student_RT, teacher_RT=teacher_RT, mask_RT=mask_RT)
    gap_RT = np.where(mask_RT, teacher_RT - student_RT, 0.0)
    pulled_RT: Floats = weight * np.clip(gap_RT, -limit, limit)
    return pulled_RT
