"""What credit sees of recorded episodes, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.preferences import PairSettings, paid_pairs
from srl_agents.credit.settings import CreditSettings
from srl_agents.rewards.settings import RewardSettings
from srl_agents.rewards.terms import Judge, Played, RewardTerm
from srl_agents.rewards.weighing import RecipeRewards
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build
from tests.srl_agents.rewards.recorded import episode, turn

PAID, STATISTICS = ("outcome", "format"), ("welfare",)
POLICIES = {"alice@1": "alice"}
FORM: dict[str, Any] = {
    "parts": {"form": {"kind": "format", "settings": {"blocks": ["action"], "only_blocks": True}}}
}


@dataclass(frozen=True, kw_only=True)
class Given(RewardTerm):
    """Values that the test gives, turn by turn."""

    values: tuple[float, ...] = ()

    def judge(self, max_new_tokens: int) -> Judge:
        if not self.values:
            return lambda played: [[None] * len(p.trajectory.turns) for p in played]
        return lambda played: [list(self.values) for _ in played]


@dataclass(frozen=True, kw_only=True)
class Raising(RewardTerm):
    """Foreign code with a fault."""

    def judge(self, max_new_tokens: int) -> Judge:
        def judge(played: Sequence[Played]) -> list[list[float]]:
            raise ZeroDivisionError("no reason")

        return judge


def rewards(**section: Any) -> RecipeRewards:
    return RecipeRewards(
        build(RewardSettings, section, "rewards"),
        paid=PAID,
        statistics=STATISTICS,
        max_new_tokens=8,
    )


def test_every_part_is_paid_with_its_turn_and_by_its_weight() -> None:
    """Two turns of 5 and 8 tokens: 0.5 * outcome, 2 * format, 0.1 * welfare with the last turn,
    0.2 * half a rubric each, -0.4 * half of 0.25 and of 1, and 0.01 a token."""
    played = episode(
        turn("<action>1</action>", 5, outcome=0.0, format=0.0),
        turn("so <action>2</action>", 8, "illegal", outcome=1.0, format=-0.05),
        before=0.25,
        outcome=1.25,
        welfare=3.0,
    )
    (judged,), metrics = rewards(
        weights={"outcome": 0.5, "format": 2.0, "welfare": 0.1},
        terms={
            "tidy": {"rubric": FORM, "weight": 0.2},
            "short": {"kind": "overlong", "buffer": 4, "weight": 0.4},
            "cost": {"kind": "token_cost", "weight": 0.01},
        },
    ).judged([played], POLICIES)
    first, second = judged.trajectories[0].turns
    assert first.reward == pytest.approx(0.1 - 0.4 * 0.25 / 2 - 0.05)
    assert second.reward == pytest.approx(0.5 - 0.1 + 0.3 + 0.0 - 0.4 / 2 - 0.08)
    total = first.reward + second.reward + 0.5 * 0.25
    assert judged.trajectories[0].total_reward == pytest.approx(total)
    assert metrics == {
        "alice@1": {
            "reward/outcome": pytest.approx(0.5 * 1.25),
            "reward/format": pytest.approx(-0.1),
            "reward/welfare": pytest.approx(0.3),
            "reward/tidy": pytest.approx(0.1),
            "reward/short": pytest.approx(-0.25),
            "reward/cost": pytest.approx(-0.13),
            "reward/credited": pytest.approx(total),
        }
    }


def test_outcomes_and_what_the_store_gets_stay() -> None:
    played = episode(turn("a", 3, outcome=1.0), outcome=1.0, welfare=2.0)
    (judged,), _ = rewards(weights={"outcome": 7.0}, terms={"cost": {"kind": "token_cost"}}).judged(
        [played], POLICIES
    )
    assert judged.trajectories[0].total_reward == 7.0 - 3.0
    assert judged.result().outcomes == played.result().outcomes
    assert judged.trajectories[0].components["outcome"] == 1.0
    assert judged.trajectories[1] == played.trajectories[1]
    assert replace(judged, trajectories=played.trajectories) == played


weight = st.floats(-4, 4).filter(lambda w: abs(w) > 1e-3)


@given(weight, weight, st.floats(-3, 3), st.floats(-3, 3), st.integers(1, 7))
def test_the_total_is_linear_in_the_weights(
    outcome: float, cost: float, paid: float, welfare: float, tokens: int
) -> None:
    """Weights of a and of b together pay what they pay apart."""
    played = episode(turn("x", tokens, outcome=paid, format=-0.05), welfare=welfare)

    def total(**weights: float) -> float:
        section = {"weights": {"outcome": 0.0, "format": 0.0, **weights}}
        (judged,), _ = rewards(**section, terms={"cost": TERM}).judged([played], POLICIES)
        return judged.trajectories[0].total_reward + 0.001 * tokens

    apart = total(outcome=outcome) + total(welfare=cost)
    assert total(outcome=outcome, welfare=cost) == pytest.approx(apart)
    assert total(outcome=2 * outcome) == pytest.approx(2 * total(outcome=outcome))


TERM = {"kind": "token_cost", "weight": 0.001}


def test_advantages_are_those_of_the_weighted_rewards() -> None:
    """Attempts earn 1 and 0 in the game; 6 and 2 tokens at 0.1 make it 0.4 and -0.2, mean 0.1."""
    attempts = [
        episode(turn("long", 6, outcome=1.0, format=0.0), attempt=0),
        episode(turn("short", 2, outcome=0.0, format=0.0), attempt=1),
    ]
    section = {"terms": {"cost": {"kind": "token_cost", "weight": 0.1}}}
    judged, _ = rewards(**section).judged(attempts, POLICIES)
    rows, _ = CreditAssigner(CreditSettings()).assign(judged, "alice", "alice@1")
    assert {t.reply: a for t, a in rows} == {
        "long": pytest.approx(0.3),
        "short": pytest.approx(-0.3),
    }
    rows, _ = CreditAssigner(CreditSettings()).assign(attempts, "alice", "alice@1")
    assert {t.reply: a for t, a in rows} == {"long": 0.5, "short": -0.5}


def test_replies_that_were_cut_move_the_baseline_and_learn_nothing() -> None:
    attempts = [
        episode(turn("cut", 8, outcome=1.0), attempt=0),
        episode(turn("ended", 2, outcome=0.0), attempt=1),
    ]
    judged, _ = rewards(mask_overlong=True).judged(attempts, POLICIES)
    credit = CreditAssigner(CreditSettings())
    rows, _ = credit.assign(judged, "alice", "alice@1")
    assert [(t.reply, a) for t, a in rows] == [("ended", -0.5)]
    paid, _ = credit.paid_turns(judged, "alice", "alice@1")
    assert [p.turn.reply for p in paid] == ["ended"]
    assert not any(t.masked for e in rewards().judged(attempts, POLICIES)[0] for t in _turns(e))


@pytest.mark.parametrize("masked", [False, True])
def test_replies_that_were_cut_make_no_pairs(masked: bool) -> None:
    attempts = [
        episode(turn("cut", 8, outcome=1.0), attempt=0),
        episode(turn("ended", 2, outcome=0.0), attempt=1),
    ]
    judged, _ = rewards(mask_overlong=masked).judged(attempts, POLICIES)
    assert len(paid_pairs(judged, POLICIES, PairSettings())) == (0 if masked else 1)


def _turns(played: Any) -> Any:
    return played.trajectories[0].turns


def test_what_cannot_be_judged_is_left_out_and_charged_to_nobody() -> None:
    one, lost = episode(turn("a", 2, outcome=1.0)), episode(turn("b", 2), termination="void")
    section = {"terms": {"broken": {"kind": f"{__name__}:Given"}}}
    judged, metrics = rewards(**section).judged([one, lost], POLICIES)
    assert [e.valid for e in judged] == [False, False]
    assert judged[0].fault == "reward 'broken' could not be judged"
    assert metrics == {}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"kind": f"{__name__}:Given", "values": [1.0, 2.0]}, "one finite number, or None"),
        ({"kind": f"{__name__}:Raising"}, "rewards.terms.own raised ZeroDivisionError: no reason"),
    ],
)
def test_a_kind_of_ones_own_that_fails_is_named(kind: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rewards(terms={"own": kind}).judged([episode(turn("a", 2))], POLICIES)


def test_seats_that_do_not_learn_are_not_judged() -> None:
    played = episode(turn("a", 2, outcome=1.0))
    judged, metrics = rewards(terms={"cost": TERM}).judged([played], {"bob@1": "bob"})
    assert judged == [played]
    assert metrics == {}
