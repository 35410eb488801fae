"""A2TGPO: how much likelier a turn made the right answer, beside how the episode ended.

    IG_t = log p(answer | prompt of turn t + 1) - log p(answer | prompt of turn t)
    N_t  = (IG_t - mean) / (deviation + 1e-6)          among the attempts at one start state, per turn number
    A_t  = N_outcome + 1 / sqrt(n_t) * sum over s >= t of discount^(s - t) * N_s,    n_t terms

The last turn of an episode has no gain: its reply is the answer, and the outcome judges it. Per turn number,
because early turns tell more than late ones whatever was written; divided by the root of the number of terms,
because a sum of n independent terms is sqrt(n) wide. Answers to different questions are not compared. Turns
that ask nothing, as a verdict, lie between others that do: their span's gain is shared evenly by its turns.

By hand, two attempts of one seat with equal outcomes: log p is -2, -1, -1 in the one, -2, -2, 0 in the other.
Gains 1, 0 and 0, 2; N = 1, -1 and -1, 1 in both numbers; A_0 = (1 - 1) / sqrt(2) = 0, A_1 = -1 and 1.

Source: arXiv:2605.06200, its abstract. Differences: gains of log-probabilities, where it names probabilities;
the outcome is added as the group's normalised return; the clip range does not follow the gain, because TRL's
loss has one for all rows. No fork is needed, and no critic.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.estimators import Advantages, Earned, Estimator, flat, mean, turn_numbers
from srl_agents.credit.group_relative import role_advantages
from srl_agents.credit.returns import rewards_to_go
from srl_envs.errors import ConfigError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class InformationGain(Estimator):
    """Normalised gains from a turn on, and the normalised outcome; ``scale_advantages`` changes nothing.

    Source: arXiv:2605.06200, its abstract.
    """

    has_groups = True
    needs_turns = True
    needs_answers = True

    def advantages(self, earned: Earned) -> Advantages:
        """See `Estimator`.

        Raises:
            ConfigError: the log-probabilities of the answers are absent.
        """
        if earned.answers_EK is None:
            raise ConfigError(
                "credit.estimator='information_gain' needs the log-probability of the right answer at every "
                "turn: give the assigner answer_logprobs."
            )
        valid_EK, group_E, seat_E = earned.valid_EK, earned.group_E, earned.seat_E
        questions_EK = earned.questions_EK
        if questions_EK is None:
            questions_EK = np.zeros(valid_EK.shape, dtype=np.int64)
        gains_EK, known_EK = _gains(earned.answers_EK, questions_EK, valid_EK)
        normal_EK = _by_turn_number(gains_EK, known_EK, group_E, seat_E)
        sums_EK = rewards_to_go(normal_EK, valid_EK, discount=self.settings.discount)
        terms_EK = np.cumsum(known_EK[:, ::-1], axis=1)[:, ::-1]
        ended_E, valid_E = earned.returns_EK[:, 0], valid_EK[:, 0]
        outcome_E = role_advantages(ended_E, group_E, seat_E, valid_E, scale=True)
        flat_E = flat(ended_E, group_E, seat_E, valid_E)
        outcome_E = np.where(flat_E, 0.0, outcome_E)
        advantages_EK = outcome_E[:, None] + sums_EK / np.sqrt(np.maximum(terms_EK, 1))
        told_EK = np.cumsum((normal_EK != 0)[:, ::-1], axis=1)[:, ::-1] > 0
        left_out_EK = ~valid_EK | (flat_E[:, None] & ~told_EK)
        metrics = {"flat_groups": mean(flat_E[valid_E]), "gain": mean(gains_EK[known_EK])}
        return np.where(valid_EK, advantages_EK, 0.0), left_out_EK, metrics


def _gains(
    answers_EK: Floats, questions_EK: NDArray[np.int64], valid_EK: Flags
) -> tuple[Floats, Flags]:
    """(E, K) gains, known from each turn that asks a question to the next that asks it."""
    gains_EK, known_EK = np.zeros(valid_EK.shape), np.zeros(valid_EK.shape, dtype=bool)
    for e, asked_K in enumerate(valid_EK & np.isfinite(answers_EK)):
        places = np.flatnonzero(asked_K)
        for first, last in pairwise(places):
            if questions_EK[e, first] == questions_EK[e, last]:
                gain = answers_EK[e, last] - answers_EK[e, first]
                gains_EK[e, first:last] = gain / (last - first)
                known_EK[e, first:last] = True
    return gains_EK, known_EK


def _by_turn_number(
    gains_EK: Floats, known_EK: Flags, group_E: NDArray[np.int64], seat_E: NDArray[np.int64]
) -> Floats:
    """(E, K) gains centred and scaled among equal start states, seats and turn numbers; 0 where all agree."""
    shape = known_EK.shape
    group_X = np.repeat(group_E, shape[1])
    role_X = (seat_E[:, None] * shape[1] + turn_numbers(known_EK)).ravel()
    gains_X, known_X = gains_EK.ravel(), known_EK.ravel()
    normal_X = role_advantages(gains_X, group_X, role_X, known_X, scale=True)
    normal_X[flat(gains_X, group_X, role_X, known_X)] = 0.0
    return normal_X.reshape(shape)
