"""Conformance kit for credit estimators, on returns that are drawn on the spot.

from srl_agents.testing import check_estimator

def test_my_estimator():
    check_estimator(CreditSettings(estimator="my_package.mine:MyEstimator", level="turn"))
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from srl_agents.credit.estimators import ESTIMATORS, Advantages, Earned, Estimator
from srl_agents.credit.settings import CreditSettings
from srl_agents.testing.advice import Promise, hold, require
from srl_agents.testing.forked_updates import forked_in
from srl_envs.errors import ConfigError

_GROUPS, _ATTEMPTS, _SEATS, _TURNS = 3, 4, 2, 3
_UPDATES = 4


def check_estimator(settings: CreditSettings) -> None:
    """Hold an estimator to everything that credit relies on.

    Args:
        settings: name it, with the options that it needs.

    Raises:
        ConfigError: it is a class of estimators, not the settings that name one.
        ConformanceError: names the promise that was broken.
    """
    if isinstance(settings, type):
        name = f"{settings.__module__}:{settings.__qualname__}"
        raise ConfigError(
            f"check_estimator({settings.__name__}): expected settings that name the estimator: "
            f"check_estimator(CreditSettings(estimator={name!r}))."
        )
    hold(f"estimator {settings.estimator!r}", PROMISES, settings)


def earned_in(update: int, *, learner: str = "alice", one_turn: bool = False) -> Earned:
    """What a policy earned in an update: the second attempt of every group failed.

    Args:
        update: changes the numbers.
        learner: whose running means apply.
        one_turn: episodes count as a whole.
    """
    entries, turns = _GROUPS * _ATTEMPTS * _SEATS, 1 if one_turn else _TURNS
    place_E = np.arange(entries)
    group_E, seat_E = place_E // (_ATTEMPTS * _SEATS), place_E % _SEATS
    attempt_E = place_E // _SEATS % _ATTEMPTS
    valid_EK = np.broadcast_to((attempt_E != 1)[:, None], (entries, turns)).copy()
    valid_EK[attempt_E == 2, 1:] = False  # games of different length
    rng = np.random.default_rng(update)
    rewards_EK = np.where(valid_EK, rng.uniform(-1, 1, valid_EK.shape), 0.0)
    returns_EK = np.where(valid_EK, np.cumsum(rewards_EK[:, ::-1], axis=1)[:, ::-1], 0.0)
    return Earned(
        rewards_EK=rewards_EK,
        returns_EK=returns_EK,
        valid_EK=valid_EK,
        group_E=group_E,
        seat_E=seat_E,
        roles_E=tuple(("none-v0", int(seat), learner) for seat in seat_E),
        answers_EK=rng.uniform(-3, 0, valid_EK.shape),
    )


def _earned(settings: CreditSettings, update: int, learner: str = "alice") -> Earned:
    """What the estimator is asked about: forks where it reads them."""
    kind = ESTIMATORS.find(settings.estimator)
    if kind.reads_forks:
        return forked_in(update, learner=learner, joint=kind.needs_joint)
    return earned_in(update, learner=learner, one_turn=settings.level == "episode")


def _made(settings: CreditSettings) -> Estimator:
    return ESTIMATORS.find(settings.estimator)(settings, scale=False)


def _asked(
    estimator: Estimator, settings: CreditSettings, update: int, learner: str = "alice"
) -> Advantages:
    return estimator.advantages(_earned(settings, update, learner))


def _same(one: Advantages, other: Advantages) -> bool:
    return (
        np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1]) and one[2] == other[2]
    )


def _check_form(settings: CreditSettings) -> None:
    estimator = _made(settings)
    for update in range(_UPDATES):
        earned = _earned(settings, update)
        advantages_EK, flat_EK, metrics = estimator.advantages(earned)
        shape = earned.valid_EK.shape
        require(
            advantages_EK.shape == shape, f"advantages of shape {advantages_EK.shape}, not {shape}"
        )
        require(
            flat_EK.shape == shape and flat_EK.dtype == bool,
            "what is left out is not an (E, K) mask",
        )
        require(bool(np.isfinite(advantages_EK).all()), "an advantage is not finite")
        require(bool(flat_EK[~earned.valid_EK].all()), "turns of failed episodes are not left out")
        require(not flat_EK[earned.valid_EK].all(), "everything is left out, and returns differ")
        wrong = [name for name, value in metrics.items() if not isinstance(value, float)]
        require(not wrong, f"the metrics {wrong} are not floats")


def _check_reading(settings: CreditSettings) -> None:
    earned, untouched = _earned(settings, 0), _earned(settings, 0)
    _made(settings).advantages(earned)
    for name in ("rewards_EK", "returns_EK", "valid_EK", "group_E", "seat_E"):
        require(
            np.array_equal(getattr(earned, name), getattr(untouched, name)),
            f"{name} was changed in place",
        )


def _check_state(settings: CreditSettings) -> None:
    whole, again = _made(settings), _made(settings)
    for update in range(_UPDATES):
        _asked(whole, settings, update)
    text = json.dumps(whole.state())
    again.load_state(json.loads(text))
    require(json.dumps(again.state()) == text, "what was loaded is another state")
    for update in range(_UPDATES, 2 * _UPDATES):
        same = _same(_asked(whole, settings, update), _asked(again, settings, update))
        require(same, f"update {update} of a resumed run gets other advantages")


def _check_learners(settings: CreditSettings) -> None:
    single, beside = _made(settings), _made(settings)
    for update in range(_UPDATES):
        _asked(beside, settings, update + 100, learner="bob")
        same = _same(_asked(single, settings, update), _asked(beside, settings, update))
        require(same, "what another learner earned changes the advantages")


def _check_branches(settings: CreditSettings) -> None:
    kind = ESTIMATORS.find(settings.estimator)
    if not kind.reads_forks:
        return
    earned = forked_in(0, joint=kind.needs_joint)
    valid_EK = earned.valid_EK
    advantages_EK, flat_EK, _ = _made(settings).advantages(earned)
    failed = replace(earned, returns_EK=np.where(valid_EK, earned.returns_EK, 9.0))
    found_EK = _made(settings).advantages(failed)[0]
    require(
        np.array_equal(found_EK[valid_EK], advantages_EK[valid_EK]),
        "a branch that failed changes the advantages of others",
    )
    raised = replace(earned, returns_EK=np.where(valid_EK, earned.returns_EK + 5.0, 0.0))
    found_EK, out_EK, _ = _made(settings).advantages(raised)
    require(
        np.array_equal(out_EK, flat_EK) and np.allclose(found_EK[~out_EK], advantages_EK[~out_EK]),
        "what all alternatives earn alike changes the advantages",
    )
    _made(settings).advantages(replace(earned, forest=None))  # an update without a branch


PROMISES = {
    "form": Promise(
        _check_form,
        "return (E, K) advantages, a mask that is True at least where valid_EK is False, and metrics "
        "that are floats.",
    ),
    "reading": Promise(_check_reading, "copy what you want to change."),
    "state": Promise(
        _check_state,
        "put all that later updates depend on into state(), as JSON values, and take it back in "
        "load_state().",
    ),
    "branches": Promise(
        _check_branches,
        "compare the valid alternatives of a fork with each other, also where an update has none.",
    ),
    "learners": Promise(
        _check_learners, "keep what is remembered under `roles_E`, which names the learner."
    ),
}
