"""Built-in kinds keep what the kit asks, and a kind that breaks one promise is found by its name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from srl_agents.coordination.coordinator import Coordinator, gradients_of
from srl_agents.coordination.members import Decision, Member, Tensors
from srl_agents.coordination.settings import COORDINATION, KINDS, CoordinationSettings
from srl_agents.testing import check_coordination
from srl_envs.testing import ConformanceError

SECTIONS: list[dict[str, Any]] = [
    {"kind": "independent"},
    {"kind": "synchronized"},
    {"kind": "federated", "every": 2},
    {"kind": "federated", "every": 2, "weights": "rows", "merge": "factors"},
    {"kind": "selective"},
    {"kind": "selective", "select": "signs"},
    {"kind": "asynchronous", "ready_rows": 5},
    {"kind": "distillation"},
]


@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_built_in_kinds_conform(section: dict[str, Any]) -> None:
    settings = COORDINATION.convert(section, "coordination")
    check_coordination(settings, order_matters=section["kind"] == "asynchronous")


def test_every_built_in_kind_is_held_to_the_kit() -> None:
    assert {section["kind"] for section in SECTIONS} == set(KINDS.built_in)


def test_merging_one_after_another_is_seen() -> None:
    settings = COORDINATION.convert({"kind": "asynchronous", "ready_rows": 5}, "coordination")
    with pytest.raises(ConformanceError, match="order: update"):
        check_coordination(settings)


class Sharing(Coordinator):
    """Everyone steps along the first gradient, which is one tensor for all."""

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        gradient = next(iter(gradients_of(members).values()), None)
        return Decision(changes={} if gradient is None else {m.name: gradient for m in members})


class Halving(Coordinator):
    """Halves gradients where they are."""

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        for gradients in gradients_of(members).values():
            for tensor in gradients.values():
                tensor.mul_(0.5)
        return Decision(changes=gradients_of(members))


class Forgetful(Coordinator):
    """Lets members step in every second update, but does not save which one it is."""

    updates = 0

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        self.updates += 1
        return Decision(changes=gradients_of(members) if self.updates % 2 else {})


class Boasting(Coordinator):
    """Its state is the one that it goes on with."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def after_step(self, members: Sequence[Member]) -> Decision:
        for member in members:
            self.seen[member.name] = self.seen.get(member.name, 0) + member.rows
        return Decision()

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        return {}, self.seen

    def load_state(self, tensors: Tensors, state: Mapping[str, Any], like: Tensors) -> None:
        self.seen = dict(state)


class Partial(Coordinator):
    """Gives back one tensor of several."""

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        own = gradients_of(members)
        return Decision(changes={name: dict([next(iter(g.items()))]) for name, g in own.items()})


class Needy(Coordinator):
    """Fails where a learner is missing."""

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        every: Any = {member.name: member.gradients for member in members}
        return Decision(changes={name: dict(own.items()) for name, own in every.items()})


class Snob(Coordinator):
    """Treats alice by name."""

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        own = gradients_of(members)
        return Decision(changes={name: g for name, g in own.items() if name != "bob"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken(CoordinationSettings):
    kind: str = "broken"
    made: str = ""

    def make_coordinator(self) -> Coordinator:
        coordinator: Coordinator = globals()[self.made]()
        return coordinator


@dataclass(frozen=True, kw_only=True, slots=True)
class Unwritable(CoordinationSettings):
    kind: str = "unwritable"
    names: frozenset[str] = field(default_factory=frozenset)

    def make_coordinator(self) -> Coordinator:
        return Coordinator()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("Sharing", r"reading: .* that 'bob' gets is the memory of 'alice'"),
        ("Halving", r"reading: update 0: the tensors of 'alice' were changed in place"),
        ("Forgetful", r"state: update 3 of a resumed run decides otherwise"),
        ("Boasting", r"state: what state\(\) gave changes"),
        ("Partial", r"form: what 'alice' gets has not the names"),
        ("Needy", r"absent members: raises AttributeError"),
        ("Snob", r"names: update 0: learners of other names"),
    ],
)
def test_a_broken_kind_is_found(made: str, message: str) -> None:
    with pytest.raises(ConformanceError, match=message):
        check_coordination(Broken(made=made))


def test_settings_that_cannot_be_written_down_are_found() -> None:
    with pytest.raises(ConformanceError, match="settings: raises TypeError"):
        check_coordination(Unwritable())
