"""The independent losses against sums done by hand, of one row and of one pair."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from srl_agents.trainers.verification.independent.pair_objectives import PairObjective, ScoredPair
from srl_agents.trainers.verification.independent.row_objectives import RowObjective, ScoredRow
from srl_agents.trainers.verification.independent.value_objective import JudgedRow, value_loss

LOGPS = [-1.0, -2.0]
RATIOS = [1.5, 0.5]
ADVANTAGES = [2.0, -1.0]


def row(ratios: list[float] = RATIOS, reference: list[float] | None = None) -> ScoredRow:
    logps = torch.tensor(LOGPS, dtype=torch.float64)
    return ScoredRow(
        logps_T=logps,
        entropies_T=torch.tensor([0.5, 1.5]),
        sampled_T=logps - torch.tensor(ratios).double().log(),
        advantages_T=torch.tensor(ADVANTAGES).double(),
        reference_T=None if reference is None else torch.tensor(reference).double(),
    )


EMPTY = ScoredRow(*(torch.zeros(0, dtype=torch.float64) for _ in range(4)))
# clipped at .8 and 1.2: the first token pays 1.2 * 2, the second costs .8 * 1
GAIN = 1.2 * 2 - 0.8
CASES: list[tuple[dict[str, Any], float]] = [
    ({"kind": "grpo"}, -GAIN / 2 / 2),  # mean over tokens, then over two rows, one of them empty
    ({"kind": "dapo"}, -GAIN / 2),
    ({"kind": "bnpo"}, -GAIN / 2),
    ({"kind": "luspo"}, -GAIN / 2),
    ({"kind": "dr_grpo", "constant_tokens": 10}, -GAIN / 20),
    ({"kind": "cispo", "clip_high": 1.1}, -(1.1 * 2 * -1.0 + 0.5 * -1 * -2.0) / 2),
    (
        {"kind": "sapo"},
        -(4 / (1 + math.exp(-0.5)) * 2 - 4 / 1.05 / (1 + math.exp(1.05 * 0.5))) / 2 / 2,
    ),
    # the row's ratio is .75: weights are .75^2 e^(3 * .25) where it gains, .75^3 e^(2 * .25) where it loses
    (
        {"kind": "vespo"},
        -(0.75**2 * math.exp(0.75) * 2 * -1.0 + 0.75**3 * math.exp(0.5) * -1 * -2.0) / 2,
    ),
    # the mean log-ratio is log sqrt(.75) = log .866, within the bounds
    ({"kind": "grpo", "level": "sequence"}, -(math.sqrt(0.75) * (2 - 1)) / 2 / 2),
    ({"kind": "dapo", "entropy_coef": 0.1}, -GAIN / 2 - 0.1 * 1.0),
]


@pytest.mark.parametrize(("numbers", "expected"), CASES)
def test_a_row(numbers: dict[str, Any], expected: float) -> None:
    objective = RowObjective(**{"clip_low": 0.2, "clip_high": 0.2, **numbers})
    assert float(objective.loss([row(), EMPTY])) == pytest.approx(expected)


def test_rloo_has_one_ratio_per_row() -> None:
    one = row()
    whole = ScoredRow(
        one.logps_T, one.entropies_T, one.sampled_T, torch.tensor([-2.0, -2.0]).double()
    )
    objective = RowObjective(kind="rloo", clip_low=0.2, clip_high=0.2)
    assert float(objective.loss([whole])) == pytest.approx(0.8 * 2)  # .75 is below .8
    assert objective.clipped([whole]) == 1


def test_a_divergence_is_weighed_by_the_ratio_where_it_is_corrected() -> None:
    reference = [LOGPS[0] + 1.0, LOGPS[1]]
    objective = RowObjective(kind="dapo", clip_low=0.2, clip_high=0.2, kl_coef=0.5)
    corrected = RowObjective(
        kind="dapo", clip_low=0.2, clip_high=0.2, kl_coef=0.5, kl_corrected=True
    )
    plain, weighed = (float(own.loss([row(reference=reference)])) for own in (objective, corrected))
    estimate = math.e - 2
    assert plain == pytest.approx(-GAIN / 2 + 0.5 * estimate / 2)
    assert weighed == pytest.approx(-GAIN / 2 + 0.5 * estimate * 1.5 / 2)


def test_clipped_tokens_are_counted_on_both_sides() -> None:
    objective = RowObjective(kind="dapo", clip_low=0.2, clip_high=0.2)
    assert objective.clipped([row()]) == 1  # up with a gain, down with a loss
    assert objective.clipped([row([0.5, 1.5])]) == 0  # down with a gain, up with a loss
    assert RowObjective(kind="sapo", clip_low=0.2, clip_high=0.2).clipped([row()]) is None


def test_a_value_that_moved_too_far_pays_the_worse_error() -> None:
    """A state of (-1, 1) has value 1 under weights (0, 1); before it was 0, and may move by .2."""
    judged = JudgedRow(torch.tensor([[-1.0, 1.0]]), torch.zeros(1), torch.tensor([2.0]))
    layers = [(torch.tensor([[0.0, 1.0]]), torch.zeros(1))]
    loss, held = value_loss([judged], layers, 0.2)
    assert float(loss) == pytest.approx((0.2 - 2) ** 2 / 2, rel=1e-4)
    assert held == 1
    assert float(value_loss([judged], layers, None)[0]) == pytest.approx(0.5, rel=1e-4)


S = 1 / (1 + math.exp(-0.5))
"""Sigmoid of .5 = .1 * (x - y), with x = 3 and y = -2."""
PAIRS = {
    "sigmoid": -math.log(S),
    "hinge": 0.5,
    "ipo": (3 / 2 + 2 / 1 - 5) ** 2,
    "robust": (-0.9 * math.log(S) + 0.1 * math.log(1 - S)) / 0.8,
    "exo_pair": S * math.log(S / 0.9) + (1 - S) * math.log((1 - S) / 0.1),
    "sppo_hard": (3 - 5) ** 2 + (-2 + 5) ** 2,
    "apo_zero": 1 - 1 / (1 + math.exp(-0.3)) + 1 / (1 + math.exp(0.2)),
    "apo_down": 1 / (1 + math.exp(-0.3)) + 1 - S,
    "bco_pair": math.log(1 + math.exp(-0.3)) + math.log(1 + math.exp(-0.2)),
    "nca_pair": math.log(1 + math.exp(-0.3))
    + math.log(1 + math.exp(0.3)) / 2
    + math.log(1 + math.exp(-0.2)) / 2,
    "sigmoid_norm": math.log(1 + math.exp(-0.35)),
    "discopop": -math.log(S) * (1 - 1 / (1 + math.exp(-10))) + math.exp(-0.5) / (1 + math.exp(-10)),
}
PAIR = ScoredPair(
    chosen_T=torch.tensor([-1.0, -1.0]).double(),
    rejected_T=torch.tensor([-4.0]).double(),
    chosen_reference_T=torch.tensor([-2.0, -3.0]).double(),
    rejected_reference_T=torch.tensor([-2.0]).double(),
    margin=2.0,
)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_pair(kind: str) -> None:
    objective = PairObjective(kind=kind, coef=0.1, smoothing=0.1)
    assert float(objective.loss([PAIR])) == pytest.approx(PAIRS[kind])


def test_the_tail_of_a_longer_reply_weighs_less_and_a_margin_is_asked_for() -> None:
    """Of the chosen reply's 1 + 2 the second token is behind the rejected reply's length."""
    objective = PairObjective(kind="hinge", coef=0.1, tail_weight=0.5, offset=0.3)
    assert float(objective.loss([PAIR])) == pytest.approx(1 - (0.1 * (1 + 0.5 * 2 + 2) - 0.6))
    assert objective.held([PAIR]) == pytest.approx(1 / 3)
