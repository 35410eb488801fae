"""Every kind of coordination on whole weights: averages of entries, by hand; factors are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from srl_agents.coordination.coordinator import Coordinator
from srl_agents.coordination.members import AdapterShape, Member, Tensors
from srl_agents.coordination.settings import COORDINATION
from srl_envs.errors import ConfigError, ModelError

WHOLE = AdapterShape(base="tiny", rank=None)
MERGING = ("federated", "asynchronous")


def weights(*entries: float) -> Tensors:
    """A matrix of 2 x 2 and a vector of 1, as a layer and its norm have them."""
    return {
        "layer.weight": torch.tensor(entries[:4], dtype=torch.float32).view(2, 2),
        "norm.weight": torch.tensor(entries[4:], dtype=torch.float32),
    }


def member(name: str, own: Tensors, gradient: Tensors | None = None, rows: int = 0) -> Member:
    return Member(name=name, shape=WHOLE, adapter=own, gradients=gradient, rows=rows)


def coordinator(**settings: Any) -> Coordinator:
    return COORDINATION.convert(settings, "coordination").make_coordinator()


def entries(tensors: Tensors) -> list[float]:
    return torch.cat([tensors["layer.weight"].flatten(), tensors["norm.weight"]]).tolist()


ALICE, BOB = (1.0, 2.0, 3.0, 4.0, 1.0), (5.0, 2.0, -1.0, 0.0, 3.0)


def test_synchronized_learners_step_along_the_mean_gradient() -> None:
    members = [
        member("alice", weights(*ALICE), weights(1, 0, 2, -4, 8)),
        member("bob", weights(*ALICE), weights(3, 0, -2, 0, 0)),
    ]
    decision = coordinator(kind="synchronized").before_step(members)
    assert [entries(decision.changes[name]) for name in ("alice", "bob")] == [[2, 0, 0, -2, 4]] * 2
    # <a, b> = 3 - 4 = -1; |a| = sqrt(85), |b| = sqrt(13)
    assert decision.run["gradient_agreement"] == pytest.approx(-1 / (85 * 13) ** 0.5)


def test_federated_learners_keep_a_share_of_themselves() -> None:
    members = [member("alice", weights(*ALICE), rows=3), member("bob", weights(*BOB), rows=1)]
    federated = coordinator(kind="federated", every=1, local_share=0.5, weights="rows")
    decision = federated.after_step(members)
    # The common part is (3 alice + 1 bob) / 4 = [2, 2, 2, 3, 1.5].
    assert entries(decision.changes["alice"]) == [1.5, 2, 2.5, 3.5, 1.25]
    assert entries(decision.changes["bob"]) == [3.5, 2, 0.5, 1.5, 2.25]
    assert decision.run == {}  # whole weights have no product that an average could miss
    assert decision.learners == {"alice": {"merge_weight": 0.75}, "bob": {"merge_weight": 0.25}}


def test_a_learner_of_weight_0_has_no_influence() -> None:
    broken = weights(*[float("nan")] * 5)
    members = [member("alice", weights(*ALICE), rows=4), member("bob", broken, rows=0)]
    federated = coordinator(kind="federated", every=1, local_share=0, weights="rows")
    changes = federated.after_step(members).changes
    assert entries(changes["alice"]) == entries(changes["bob"]) == list(ALICE)
    asynchronous = coordinator(kind="asynchronous", ready_rows=1, mixing=0)
    start = [member("alice", weights(*ALICE)), member("bob", weights(*ALICE))]
    asynchronous.before_step(start)
    merged = asynchronous.after_step([start[0], member("bob", broken, rows=1)]).changes
    assert entries(merged["bob"]) == list(ALICE)


def test_asynchronous_learners_mix_into_shared_weights() -> None:
    asynchronous = coordinator(kind="asynchronous", ready_rows=2, mixing=0.5)
    start = weights(0, 0, 0, 0, 0)
    asynchronous.before_step([member("alice", start), member("bob", start)])
    members = [member("alice", weights(*ALICE), rows=2), member("bob", weights(*BOB), rows=1)]
    decision = asynchronous.after_step(members)
    assert list(decision.changes) == ["alice"]
    assert entries(decision.changes["alice"]) == [0.5, 1, 1.5, 2, 0.5]
    members = [member("alice", start), member("bob", weights(*BOB), rows=1)]
    decision = asynchronous.after_step(members)
    weight = 0.5 / 2**0.5  # stale by one
    assert decision.learners["bob"] == {"staleness": 1.0, "merge_weight": pytest.approx(weight)}
    mixed = [(1 - weight) * a / 2 + weight * b for a, b in zip(ALICE, BOB, strict=True)]
    assert entries(decision.changes["bob"]) == pytest.approx(mixed)


def test_only_entries_whose_signs_agree_step() -> None:
    members = [
        member("alice", weights(*ALICE), weights(1, 1, -2, 0, 3)),
        member("bob", weights(*ALICE), weights(2, -1, -1, 5, 1)),
    ]
    decision = coordinator(kind="selective", select="signs").before_step(members)
    assert entries(decision.changes["alice"]) == [1, 0, -2, 0, 3]
    assert entries(decision.changes["bob"]) == [2, 0, -1, 0, 1]
    assert decision.run["sign_share"] == pytest.approx(3 / 5)


@pytest.mark.parametrize("kind", MERGING)
def test_equal_learners_stay_equal(kind: str) -> None:
    settings = {"every": 1, "weights": "even"} if kind == "federated" else {"ready_rows": 1}
    own = coordinator(kind=kind, **settings)
    members = [member(name, weights(*ALICE), rows=1) for name in ("alice", "bob")]
    own.before_step(members)
    changes = own.after_step(members).changes
    assert [entries(tensors) for tensors in changes.values()] == [list(ALICE)] * 2


@pytest.mark.parametrize("kind", MERGING)
def test_factors_of_whole_weights_are_refused(kind: str) -> None:
    own = coordinator(kind=kind, merge="factors", **({"every": 1} if kind == "federated" else {}))
    with pytest.raises(ConfigError, match="no factors"):
        own.after_step([member("alice", weights(*ALICE)), member("bob", weights(*BOB))])


@pytest.mark.parametrize("kind", ["synchronized", *MERGING])
def test_a_lora_adapter_and_whole_weights_do_not_meet(kind: str) -> None:
    low = Member(
        name="bob", shape=AdapterShape(base="tiny", rank=4, scaling=2.0), adapter=weights(*BOB)
    )
    for members in ([member("alice", weights(*ALICE)), low], [low, member("alice", {})]):
        with pytest.raises(ModelError, match="'alice' learns whole weights and 'bob' a LoRA"):
            coordinator(kind=kind).before_step(members)
    coordinator(kind="distillation").before_step([member("alice", weights(*ALICE)), low])
