"""Each kind against a calculation by hand, and what it must conserve."""

import json
from typing import Any

import pytest
import torch

from srl_agents.coordination.asynchronous import staleness_weight
from srl_agents.coordination.coordinator import Coordinator
from srl_agents.coordination.gradients import agreeing_entries, mean_gradient, pairwise_cosine
from srl_agents.coordination.members import AdapterShape, Member, Tensors
from srl_agents.coordination.merging import merge_products
from srl_agents.coordination.performance import Performance, top
from srl_agents.coordination.settings import COORDINATION, CoordinationSettings
from srl_envs.errors import ConfigError, ModelError

A, B = "l.lora_A.weight", "l.lora_B.weight"


def tensors(a: list[float], b: list[float]) -> Tensors:
    return {A: torch.tensor([a]), B: torch.tensor([[x] for x in b])}


def member(name: str, gradient: list[float] | None = None, **more: Any) -> Member:
    """A rank-1 adapter on a layer of 2 inputs and 2 outputs."""
    seed = more.pop("seed", 0)
    adapter = more.pop("adapter", None) or tensors([1.0, 2.0 + seed], [0.5 + seed, -1.0])
    return Member(
        name=name,
        shape=more.pop("shape", AdapterShape(base="tiny", rank=1, scaling=2.0)),
        adapter=adapter,
        gradients=None if gradient is None else tensors(gradient[:2], gradient[2:]),
        **more,
    )


def settings_of(**section: Any) -> CoordinationSettings:
    return COORDINATION.convert(section, "r.yaml: coordination")


def coordinator(**section: Any) -> Coordinator:
    return settings_of(**section).make_coordinator()


def entries(gradient: Tensors) -> list[float]:
    return torch.cat([gradient[A].flatten(), gradient[B].flatten()]).tolist()


def test_independent_hands_everyone_its_own_gradient_untouched() -> None:
    members = [member("a", [1, 2, 3, 4]), member("b")]
    decision = coordinator().before_step(members)
    assert decision.changes == {"a": members[0].gradients}
    assert decision.run == {}
    assert coordinator().after_step(members).changes == {}


def test_synchronized_gives_everyone_the_mean() -> None:
    members = [member("a", [1, 0, 2, -4]), member("b", [3, 0, -2, 0]), member("c")]
    decision = coordinator(kind="synchronized").before_step(members)
    assert {name: entries(g) for name, g in decision.changes.items()} == {
        name: [2, 0, 0, -2] for name in "abc"
    }
    by_hand = (3 - 4) / (21**0.5 * 13**0.5)
    assert decision.run["gradient_agreement"] == pytest.approx(by_hand)
    decision.changes["a"][A].zero_()
    assert entries(decision.changes["b"]) == [2, 0, 0, -2]  # no learners share memory
    assert coordinator(kind="synchronized").before_step([member("a"), member("b")]).changes == {}


def test_the_best_step_and_those_who_tie_with_the_last_of_them() -> None:
    selective = coordinator(kind="selective", top_k=1)
    members = [member(name, [1, 1, 1, 1]) for name in "abc"]
    assert set(selective.before_step(members).changes) == set("abc")  # nothing is known yet
    selective.observe({"a": 0.1, "b": 0.5, "c": 0.5})
    decision = selective.before_step(members)
    assert set(decision.changes) == {"b", "c"}
    assert decision.learners == {
        "a": {"stepped": 0.0},
        "b": {"stepped": 1.0},
        "c": {"stepped": 1.0},
    }
    selective.observe({"a": 2.0, "b": 0.5, "c": 0.5})
    assert set(selective.before_step(members).changes) == {"a"}
    without = [member("a"), *members[1:]]  # the best has nothing to learn: the next are chosen
    assert set(selective.before_step(without).changes) == {"b", "c"}


def test_who_was_chosen_for_an_update_takes_all_of_its_steps_and_no_other() -> None:
    """The best runs out of rows one step before the others."""
    selective = coordinator(kind="selective", top_k=1)
    members = [member("a", [1, 1, 1, 1]), member("b", [1, 1, 1, 1])]
    selective.observe({"a": 0.6, "b": 0.5})
    assert set(selective.before_step(members).changes) == {"a"}
    last = selective.before_step([member("a"), members[1]], first=False)
    assert (last.changes, last.learners) == ({}, {})
    selective.observe({"a": 0.1, "b": 0.5})
    assert set(selective.before_step(members).changes) == {"b"}


def test_signs_are_not_taken_for_agreed_where_the_others_ran_out_of_rows() -> None:
    signs = coordinator(kind="selective", select="signs")
    members = [member("a", [1, -1, 2, 0]), member("b", [3, -2, -1, 1])]
    assert set(signs.before_step(members).changes) == {"a", "b"}
    assert signs.before_step([members[0], member("b")], first=False).changes == {}
    without_b = signs.before_step([members[0], member("b")])  # b plays no part in this update
    assert entries(without_b.changes["a"]) == [1, -1, 2, 0]


def test_only_entries_whose_signs_agree_are_moved() -> None:
    gradients: list[list[float]] = [[1, -1, 2, 0], [3, -2, -1, 1], [2, -3, 1, 1]]
    members = [member(name, g) for name, g in zip("abc", gradients, strict=True)]
    decision = coordinator(kind="selective", select="signs").before_step(members)
    assert [entries(decision.changes[n]) for n in "abc"] == [
        [1, -1, 0, 0], [3, -2, 0, 0], [2, -3, 0, 0],
    ]  # fmt: skip
    assert decision.run["sign_share"] == 0.5


def test_federated_by_hand() -> None:
    """softmax(0.2/0.2, 0/0.2): w = e/(1+e), 1/(1+e); half of each stays its own."""
    settings = {"kind": "federated", "every": 2, "temperature": 0.2}
    federated = coordinator(merge="factors", **settings)
    members = [member("a", seed=0), member("b", seed=1)]
    assert federated.after_step(members).changes == {}  # the first of two updates
    federated.observe({"a": 0.2, "b": 0.0})
    decision = federated.after_step(members)
    w = 2.718281828459045 / (1 + 2.718281828459045)
    for name, own in (("a", 1.0), ("b", 0.0)):
        share = 0.5 * own + 0.5 * w  # of a in the result
        by_hand = [1.0, share * 2 + (1 - share) * 3, share * 0.5 + (1 - share) * 1.5, -1.0]
        assert entries(decision.changes[name]) == pytest.approx(by_hand)
    assert decision.learners["a"]["merge_weight"] == pytest.approx(w)
    assert decision.learners["b"]["merge_weight"] == pytest.approx(1 - w)
    assert decision.run["merge_gap"] == decision.run["factor_gap"] > 0


def test_federated_by_product_multiplies_out_to_the_average() -> None:
    federated = coordinator(kind="federated", every=1, weights="even", local_share=0.0)
    same_a = tensors([1.0, 2.0], [3.0, 0.0])
    members = [member("a", adapter=same_a), member("b", adapter=tensors([1.0, 2.0], [1.0, 2.0]))]
    decision = federated.after_step(members)
    for merged in decision.changes.values():
        product = (merged[B] @ merged[A]).flatten().tolist()
        assert product == pytest.approx([2.0, 4.0, 1.0, 2.0], rel=1e-5)
    assert decision.run["merge_gap"] == pytest.approx(0, abs=1e-6)
    assert decision.run["factor_gap"] == pytest.approx(
        0, abs=1e-6
    )  # equal A: factors may be averaged


@pytest.mark.parametrize("kind", ["federated", "asynchronous"])
def test_products_are_merged_where_factors_would_mix(kind: str) -> None:
    """Learners that read and write apart: the factors' mean lets each write what the other read."""
    a, b = tensors([1.0, 0.0], [4.0, 0.0]), tensors([0.0, 1.0], [0.0, 2.0])
    whole = (a[B] @ a[A] + b[B] @ b[A]) / 2
    merged = []
    for merge in ("product", "factors"):
        more = {"federated": {"every": 1, "weights": "even", "local_share": 0.0}}
        settings = more.get(kind, {"ready_rows": 1, "mixing": 0.5})
        made = coordinator(kind=kind, merge=merge, **settings)
        made.before_step([member("a", adapter=a), member("b", adapter=b)])
        members = [member("a", adapter=a), member("b", adapter=b, rows=1)]
        merged.append(made.after_step(members).changes["b"])
    products, factors = (tensor[B] @ tensor[A] for tensor in merged)
    # the best of rank 1 keeps the larger half and nothing else
    assert products.flatten().tolist() == pytest.approx([2.0, 0.0, 0.0, 0.0], abs=1e-5)
    assert factors.flatten().tolist() == pytest.approx([1.0, 1.0, 0.5, 0.5])
    assert (products - whole).norm() < (factors - whole).norm()


def test_a_learner_that_keeps_all_of_itself_keeps_what_it_does() -> None:
    federated = coordinator(kind="federated", every=1, local_share=1.0)
    members = [member("a", seed=0), member("b", seed=3)]
    decision = federated.after_step(members)
    for m in members:
        merged = decision.changes[m.name]
        assert torch.allclose(merged[B] @ merged[A], m.adapter[B] @ m.adapter[A], atol=1e-5)


def test_federated_by_rows_counts_them_since_the_last_merge() -> None:
    federated = coordinator(kind="federated", every=2, weights="rows", merge="factors")
    for rows in ((1, 5), (2, 4)):
        decision = federated.after_step([member("a", rows=rows[0]), member("b", rows=rows[1])])
    assert decision.learners["a"]["merge_weight"] == pytest.approx(3 / 12)
    for _ in range(2):
        decision = federated.after_step([member("a", rows=1), member("b", rows=0)])
    assert decision.learners["a"]["merge_weight"] == 1.0


@pytest.mark.parametrize("merge", ["product", "factors"])
def test_equal_learners_stay_equal_under_averaging(merge: str) -> None:
    federated = coordinator(kind="federated", every=1, weights="even", merge=merge)
    members = [member(name) for name in "abc"]
    first, *others = federated.after_step(members).changes.values()
    for other in others:
        assert all(torch.equal(first[key], other[key]) for key in first)
    before = members[0].adapter
    assert torch.allclose(first[B] @ first[A], before[B] @ before[A], atol=1e-6)


def test_asynchronous_by_hand() -> None:
    """Each ready learner mixes in; what others merged meanwhile makes it stale and lighter."""
    shared = coordinator(kind="asynchronous", ready_rows=4, mixing=0.5, merge="factors")
    start = tensors([1.0, 0.0], [0.0, 0.0])
    shared.before_step([member("a", adapter=start), member("b", adapter=start)])
    a, b = tensors([1.0, 0.0], [4.0, 0.0]), tensors([1.0, 0.0], [0.0, 8.0])

    decision = shared.after_step([member("a", adapter=a, rows=4), member("b", adapter=b, rows=3)])
    assert list(decision.changes) == ["a"]  # b has trained on 3 of 4 rows
    assert entries(decision.changes["a"]) == [1, 0, 2, 0]  # half of 0 and half of 4
    assert decision.learners["a"] == {"staleness": 0.0, "merge_weight": 0.5}

    taken = decision.changes["a"]
    decision = shared.after_step(
        [member("a", adapter=taken, rows=3), member("b", adapter=b, rows=1)]
    )
    assert list(decision.changes) == ["b"]
    w = 0.5 / 2**0.5  # stale by one
    assert decision.learners["b"] == {"staleness": 1.0, "merge_weight": pytest.approx(w)}
    assert entries(decision.changes["b"]) == pytest.approx([1, 0, 2 * (1 - w), 8 * w])

    decision = shared.after_step([member("a", adapter=a, rows=1), member("b", adapter=b)])
    assert decision.learners["a"]["staleness"] == 1.0  # b's merge; its own made no learner stale


def test_a_weight_of_zero_leaves_the_shared_adapter_alone() -> None:
    shared = coordinator(kind="asynchronous", ready_rows=1, mixing=0.0)
    start = tensors([1.0, 0.0], [0.0, 3.0])
    shared.before_step([member("a", adapter=start), member("b", adapter=start)])
    wild = tensors([9.0, 9.0], [9.0, 9.0])
    decision = shared.after_step([member("a", adapter=wild, rows=1), member("b", adapter=start)])
    assert entries(decision.changes["a"]) == entries(start)


def test_asynchronous_by_product_merges_products() -> None:
    shared = coordinator(kind="asynchronous", ready_rows=1, mixing=0.25)
    start, own = tensors([1.0, 2.0], [3.0, 0.0]), tensors([1.0, 2.0], [1.0, 2.0])
    shared.before_step([member("a", adapter=start), member("b", adapter=start)])
    changed = shared.after_step([member("a", adapter=own, rows=1), member("b", adapter=start)])
    expected = merge_products([start, own], [0.75, 0.25], nearest_to=own)
    assert entries(changed.changes["a"]) == entries(expected)
    product = (changed.changes["a"][B] @ changed.changes["a"][A]).flatten().tolist()
    assert product == pytest.approx([2.5, 5.0, 0.5, 1.0], rel=1e-5)


def test_staleness_takes_weight_away() -> None:
    assert [staleness_weight(0.8, s, 0.5) for s in (0, 3, 8)] == pytest.approx([0.8, 0.4, 0.8 / 3])
    assert staleness_weight(0.8, 5, 0.0) == 0.8


def test_the_best_teaches_those_that_are_worse() -> None:
    distillation = coordinator(kind="distillation")
    names = ["a", "b", "c"]

    def teachers() -> list[str | None]:
        said = [distillation.teaching(name, names) for name in names]
        return [teaching.teacher if teaching else None for teaching in said]

    assert teachers() == [None] * 3
    distillation.observe({"a": 0.1, "b": 0.5, "c": 0.5})
    assert teachers() == ["b", None, None]
    distillation.observe({"a": 0.9, "b": 0.5, "c": 0.4})
    assert teachers() == [None, "a", "a"]
    assert coordinator(kind="synchronized").teaching("a", names) is None
    members = [member("a", [1, 1, 1, 1]), member("b", [2, 2, 2, 2], seed=4)]
    assert distillation.before_step(members).changes == {m.name: m.gradients for m in members}


@pytest.mark.parametrize("what", ["base", "rank", "scaling"])
@pytest.mark.parametrize("kind", ["synchronized", "federated", "asynchronous"])
def test_adapters_that_do_not_fit_are_refused(kind: str, what: str) -> None:
    values: dict[str, Any] = {"base": "tiny", "rank": 1, "scaling": 2.0}
    other = AdapterShape(**{**values, what: {"base": "big", "rank": 2, "scaling": 4.0}[what]})
    members = [member("a", [1, 1, 1, 1]), member("b", [1, 1, 1, 1], shape=other)]
    with pytest.raises(ModelError, match=f"'a' and 'b' cannot be combined: {what}"):
        coordinator(kind=kind).before_step(members)
    coordinator(kind="distillation").before_step(members)  # combines no tensors


def wide(name: str, scaling: float, **more: Any) -> Member:
    """A rank-2 adapter on the same layer."""
    adapter = {
        A: torch.tensor([[1.0, 0.0], [3.0, 1.0]]),
        B: torch.tensor([[2.0, 1.0], [0.0, -1.0]]),
    }
    shape = AdapterShape(base="tiny", rank=2, scaling=scaling)
    return Member(name=name, shape=shape, adapter=adapter, **more)


def effect(tensors: Tensors, scaling: float) -> torch.Tensor:
    """What an adapter adds to its layer."""
    return scaling * tensors[B].double() @ tensors[A].double()


def test_adapters_of_other_ranks_and_scalings_merge_by_what_they_add() -> None:
    """Two by two, so rank 2 holds the average of both, and rank 1 the largest part of it."""
    narrow, other = member("a", [1, 1, 1, 1], seed=1), wide("b", 0.5)
    federated = coordinator(
        kind="federated", every=1, weights="even", local_share=0, merge="across"
    )
    assert federated.before_step([narrow, other]).changes.keys() == {"a"}
    decision = federated.after_step([narrow, other])
    wanted = (effect(narrow.adapter, 2.0) + effect(other.adapter, 0.5)) / 2
    merged = effect(decision.changes["b"], 0.5)
    torch.testing.assert_close(merged, wanted, rtol=1e-5, atol=1e-6)
    cut = effect(decision.changes["a"], 2.0)
    assert decision.changes["a"][A].shape == (1, 2)
    missed = torch.linalg.svdvals(wanted)[1]
    assert float((wanted - cut).norm()) == pytest.approx(float(missed), rel=1e-5)
    half = float(missed / wanted.norm()) / 2  # b misses nothing
    assert decision.run == {"merge_gap": pytest.approx(half, rel=1e-4)}
    assert decision.learners["a"]["merge_weight"] == 0.5


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (AdapterShape(base="big", rank=2, scaling=0.5), "bases"),
        (AdapterShape(base="tiny", rank=None), "parameters"),
    ],
)
def test_across_ranks_the_base_must_be_one(other: AdapterShape, what: str) -> None:
    odd = wide("b", 0.5)
    odd.shape = other
    federated = coordinator(kind="federated", merge="across")
    with pytest.raises(ModelError, match=f"'a' and 'b' cannot be combined: their {what} differ"):
        federated.before_step([member("a"), odd])


def test_across_ranks_layers_must_have_equal_sizes() -> None:
    odd = member("b", adapter={A: torch.zeros(1, 3), B: torch.zeros(2, 1)})
    with pytest.raises(ModelError, match="their layers differ"):
        coordinator(kind="federated", merge="across").before_step([member("a"), odd])
    with pytest.raises(ConfigError, match="the shared adapter has one rank"):
        settings_of(kind="asynchronous", merge="across").check(learners=2, parameters="lora")


def test_tensors_of_another_layer_are_refused() -> None:
    odd = {A: torch.zeros(1, 3), B: torch.zeros(2, 1)}
    members = [member("a", [1, 1, 1, 1]), member("b", [1, 1, 1, 1], adapter=odd)]
    with pytest.raises(ModelError, match="lora_A"):
        coordinator(kind="synchronized").before_step(members)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "federated", "every": 3, "weights": "rows"},
        {"kind": "federated", "every": 2},
        {"kind": "asynchronous", "ready_rows": 5, "merge": "product"},
        {"kind": "selective"},
    ],
)
def test_a_resumed_coordinator_decides_like_an_undisturbed_one(settings: dict[str, Any]) -> None:
    def update(one: Coordinator, i: int) -> list[Any]:
        members = [
            member("a", [1, 2, 3, i], rows=2, seed=i), member("b", [1, -2, i, 1], rows=3, seed=2 * i)
        ]  # fmt: skip
        before, after = one.before_step(members), one.after_step(members)
        one.observe({"a": 0.1 * i, "b": 0.3 - 0.05 * i})
        return [
            {name: entries(t) for name, t in d.changes.items()} | d.run | d.learners
            for d in (before, after)
        ]

    whole, first, second = (coordinator(**settings) for _ in range(3))
    for i in range(3):
        assert update(whole, i) == update(first, i)
    kept, values = first.state()
    second.load_state(kept, json.loads(json.dumps(values)), like=member("a").adapter)
    update(first, 9)  # the state is a copy
    for i in range(3, 7):
        assert update(second, i) == update(whole, i)


def test_gradient_arithmetic() -> None:
    one, two = tensors([1.0, 0.0], [0.0, 0.0]), tensors([0.0, 2.0], [0.0, 0.0])
    assert entries(mean_gradient([one, two])) == [0.5, 1.0, 0.0, 0.0]
    assert entries(mean_gradient([one, one])) == entries(one)
    assert pairwise_cosine([one, two]) == 0.0
    assert pairwise_cosine([one, one, two]) == pytest.approx(1 / 3)
    opposite = {key: -t for key, t in one.items()}
    assert pairwise_cosine([one, opposite]) == -1.0
    assert pairwise_cosine([one]) == 0.0
    zero = {key: 0 * t for key, t in one.items()}
    assert pairwise_cosine([one, zero]) == 0.0
    assert not any(mask.any() for mask in agreeing_entries([one, opposite]).values())


def test_performance_is_a_running_mean_corrected_for_its_start() -> None:
    performance = Performance()
    assert performance.of(["a", "b"]) == {"a": 0.0, "b": 0.0}
    performance.observe({"a": 1.0})
    assert performance.of(["a", "b"]) == {"a": 1.0, "b": 1.0}  # unknown: like the others
    performance.observe({"a": 0.0, "b": -1.0})
    assert performance.of(["a", "b"]) == {"a": pytest.approx(4 / 9), "b": -1.0}
    assert top({"a": 1.0, "b": 1.0, "c": 0.0}, 1) == {"a", "b"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "synchronized", "every": 3}, "does not read 'every'"),
        ({"kind": "federated", "top_k": 2}, "does not read 'top_k'"),
        ({"kind": "federated", "local_share": 1.1}, "local_share=1.1: use 0 to 1"),
        ({"kind": "federated", "temperature": 0.0}, "temperature"),
        (
            {"kind": "selective", "select": "signs", "sign_agreement": 0.5},
            "sign_agreement.* removed",
        ),
        ({"kind": "federated", "moments": "keep"}, "moments.* removed"),
        ({"kind": "federated", "performance_decay": 0.5}, "performance_decay.* removed"),
        ({"kind": "asynchronous", "ready_rows": 0}, "ready_rows"),
        ({"kind": "distillation", "teacher_weight": -1.0}, "teacher_weight"),
        ({"kind": "centralised"}, "centralised"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_of(**settings)


def test_one_learner_cannot_be_coordinated_and_everyone_is_no_selection() -> None:
    settings_of().check(learners=1, parameters="lora")
    with pytest.raises(ConfigError, match="several learners"):
        settings_of(kind="federated").check(learners=1, parameters="lora")
    with pytest.raises(ConfigError, match="top_k=2 of 2"):
        settings_of(kind="selective", top_k=2).check(learners=2, parameters="lora")
    with pytest.raises(ConfigError, match="Did you mean 'federated'"):
        settings_of(kind="federate")
