"""Conformance kit for coordination kinds, on small adapters and whole weights, without a model.

from srl_agents.testing import check_coordination

def test_my_kind():
    check_coordination(MySettings(kind="my_package.mine:MySettings", every=2))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from srl_agents.coordination.coordinator import Coordinator
from srl_agents.coordination.members import AdapterShape, Decision, Member, Tensors
from srl_agents.coordination.settings import KINDS, CoordinationSettings
from srl_agents.testing.advice import Promise, hold, require
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build, dump

NAMES = ("alice", "bob", "carol")
_UPDATES = 6
_SHAPES: dict[str, tuple[AdapterShape, dict[str, tuple[int, ...]]]] = {
    "lora": (
        AdapterShape(base="tiny", rank=2, scaling=2.0),
        {"l.lora_A.weight": (2, 5), "l.lora_B.weight": (4, 2)},
    ),
    "full": (AdapterShape(base="tiny", rank=None), {"l.weight": (4, 5), "l.bias": (4,)}),
}


def check_coordination(settings: CoordinationSettings, *, order_matters: bool = False) -> None:
    """Hold a kind to everything that the training loop relies on.

    Args:
        settings: of the kind, with which it acts within a few updates of a few rows.
        order_matters: the kind lets members act one after another, such as into shared weights.

    Raises:
        ConformanceError: names the promise that was broken.
    """
    what = f"coordination kind {settings.kind!r}"
    hold(what, {"settings": _SETTINGS}, settings)
    for parameters in ("lora", "full"):
        try:
            settings.check(learners=len(NAMES), parameters=parameters)
        except ConfigError:
            continue  # a kind may refuse one sort of weights
        hold(f"{what} on {parameters} weights", PROMISES, settings, parameters)
        if not order_matters:
            hold(f"{what} on {parameters} weights", {"order": _ORDER}, settings, parameters)


def members_of(
    update: int, parameters: str, *, absent: Sequence[str] = (), names: Sequence[str] = NAMES
) -> list[Member]:
    """Members of one update with adapters, gradients and rows that depend only on update and name.

    Args:
        update: from 0.
        parameters: ``lora`` or ``full``.
        absent: members without a batch.
        names: of the members, in training order.
    """
    shape, sizes = _SHAPES[parameters]
    made: list[Member] = []
    for place, name in enumerate(names):
        generator = torch.Generator().manual_seed(100 * update + place)
        drawn = [
            {key: torch.randn(size, generator=generator) for key, size in sizes.items()}
            for _ in range(2)
        ]
        gone = name in absent
        made.append(
            Member(
                name=name,
                shape=shape,
                adapter=drawn[0],
                gradients=None if gone else drawn[1],
                rows=0 if gone else 3 + place,
            )
        )
    return made


def decisions(coordinator: Coordinator, update: int, members: Sequence[Member]) -> list[Decision]:
    """One update as the training loop has it: the gradients' part, the weights' part, the rewards."""
    before = coordinator.before_step(members)
    after = coordinator.after_step([replace(member, gradients=None) for member in members])
    names = sorted(member.name for member in members)
    coordinator.observe({name: 0.1 * place * (-1) ** update for place, name in enumerate(names)})
    return [before, after]


# --- the promises ------------------------------------------------------------------------------


def _check_settings(settings: CoordinationSettings) -> None:
    fault = KINDS.fault(type(settings))
    require(not fault, f"{type(settings).__name__} {fault}")
    back = build(type(settings), json.loads(json.dumps(dump(settings))), "settings")
    require(back == settings, f"written down and read back, {settings} are {back}")
    try:
        settings.check(learners=len(NAMES), parameters="lora")
    except ConfigError as error:
        require(
            "full" in str(error), f"a plain recipe of {len(NAMES)} learners is refused: {error}"
        )


def _check_form(settings: CoordinationSettings, parameters: str) -> None:
    coordinator = settings.make_coordinator()
    for update in range(_UPDATES):
        members = members_of(update, parameters)
        for decision in decisions(coordinator, update, members):
            _require_form(decision, members)


def _check_absent(settings: CoordinationSettings, parameters: str) -> None:
    coordinator = settings.make_coordinator()
    for update, absent in enumerate([("bob",), ("alice", "carol"), NAMES, (), NAMES]):
        members = members_of(update, parameters, absent=absent)
        found = decisions(coordinator, update, members)
        for decision in found:
            _require_form(decision, members)
        require(
            absent != NAMES or not found[0].changes,
            f"update {update}: no learner has a gradient, and {sorted(found[0].changes)} are to step",
        )


def _check_reading(settings: CoordinationSettings, parameters: str) -> None:
    coordinator = settings.make_coordinator()
    for update in range(_UPDATES):
        members, untouched = members_of(update, parameters), members_of(update, parameters)
        for decision in decisions(coordinator, update, members):
            for member, like in zip(members, untouched, strict=True):
                require(
                    _equal(member.adapter, like.adapter)
                    and _equal(member.gradients or {}, like.gradients or {}),
                    f"update {update}: the tensors of {member.name!r} were changed in place",
                )
            _require_apart(decision, members)


def _check_state(settings: CoordinationSettings, parameters: str) -> None:
    whole, again = settings.make_coordinator(), settings.make_coordinator()
    for update in range(3):
        decisions(whole, update, members_of(update, parameters))
    tensors, values = whole.state()
    kept = {key: tensor.clone() for key, tensor in tensors.items()}
    text = json.dumps(values)
    later = range(3, 3 + _UPDATES)
    expected = [_plain(decisions(whole, u, members_of(u, parameters))) for u in later]
    require(
        _equal(tensors, kept) and json.dumps(values) == text,
        "what state() gave changes with the coordinator",
    )
    like = members_of(0, parameters)[0].adapter
    again.load_state(tensors, json.loads(text), like)
    for update, wanted in zip(later, expected, strict=True):
        got = _plain(decisions(again, update, members_of(update, parameters)))
        require(got == wanted, f"update {update} of a resumed run decides otherwise")


def _check_names(settings: CoordinationSettings, parameters: str) -> None:
    other = dict(zip(NAMES, ("xenia", "yann", "zoe"), strict=True))
    one, two = settings.make_coordinator(), settings.make_coordinator()
    for update in range(_UPDATES):
        first_decisions = _plain(decisions(one, update, members_of(update, parameters)))
        theirs = members_of(update, parameters, names=tuple(other.values()))
        wanted = [
            (_renamed(c, other), run, _renamed(own, other), r) for c, run, own, r in first_decisions
        ]
        require(
            _plain(decisions(two, update, theirs)) == wanted,
            f"update {update}: learners of other names are treated otherwise",
        )


def _check_order(settings: CoordinationSettings, parameters: str) -> None:
    one, two = settings.make_coordinator(), settings.make_coordinator()
    for update in range(_UPDATES):
        first_decisions = decisions(one, update, members_of(update, parameters))
        turned = decisions(two, update, members_of(update, parameters)[::-1])
        for first, second in zip(first_decisions, turned, strict=True):
            close = set(first.changes) == set(second.changes) and all(
                torch.allclose(tensor, second.changes[name][key], rtol=1e-3, atol=1e-4)
                for name, tensors in first.changes.items()
                for key, tensor in tensors.items()
            )
            require(close, f"update {update}: members in another order get something else")


_SETTINGS = Promise(
    _check_settings,
    "make the settings a frozen dataclass of plain values that refuses only what it cannot do.",
)
_ORDER = Promise(
    _check_order,
    "let nothing depend on the order of members, or pass order_matters=True and say why in its "
    "docstring.",
)
PROMISES = {
    "form": Promise(
        _check_form,
        "give members' own names, all of their tensors in shape and dtype, and numbers as metrics.",
    ),
    "absent members": Promise(
        _check_absent,
        "a member whose gradients are None had nothing to learn from; decide for the others.",
    ),
    "reading": Promise(
        _check_reading,
        "never write into a member's tensors, and give every member tensors of its own: clone them.",
    ),
    "state": Promise(
        _check_state,
        "put all that later updates depend on into state(), as copies, and take it back in "
        "load_state().",
    ),
    "names": Promise(_check_names, "decide by what members did, not by what they are called."),
}


# --- comparing ---------------------------------------------------------------------------------


def _require_form(decision: Decision, members: Sequence[Member]) -> None:
    by_name = {member.name: member for member in members}
    strangers = sorted({*decision.changes, *decision.learners} - set(by_name))
    require(not strangers, f"it decides about {strangers}, who are not members")
    for name, tensors in decision.changes.items():
        own = by_name[name].adapter
        require(
            {k: (t.shape, t.dtype) for k, t in tensors.items()}
            == {k: (t.shape, t.dtype) for k, t in own.items()},
            f"what {name!r} gets has not the names, shapes and types of its own tensors",
        )
        finite = all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
        require(finite, f"what {name!r} gets is not finite")
    metrics = [
        *decision.run.items(),
        *(m for own in decision.learners.values() for m in own.items()),
    ]
    wrong = [key for key, value in metrics if not isinstance(value, float)]
    require(not wrong, f"the metrics {wrong} are not floats")


def _require_apart(decision: Decision, members: Sequence[Member]) -> None:
    """Check that no learner's changes share memory with another's changes or with tensors of members."""
    owners: dict[int, str] = {}
    for member in members:
        for tensor in (*member.adapter.values(), *(member.gradients or {}).values()):
            owners[tensor.untyped_storage().data_ptr()] = member.name
    for name, tensors in decision.changes.items():
        for key, tensor in tensors.items():
            owner = owners.setdefault(tensor.untyped_storage().data_ptr(), name)
            require(owner == name, f"{key!r} that {name!r} gets is the memory of {owner!r}")


def _equal(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(one[key], other[key]) for key in one)


def _plain(found: Sequence[Decision]) -> list[Any]:
    """Decisions as values that compare."""
    return [
        (
            {name: _numbers(tensors) for name, tensors in decision.changes.items()},
            decision.run,
            decision.learners,
            decision.reset_moments,
        )
        for decision in found
    ]


def _numbers(tensors: Tensors) -> dict[str, list[float]]:
    return {key: tensor.flatten().tolist() for key, tensor in tensors.items()}


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[name]: value for name, value in values.items()}
