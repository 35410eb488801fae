"""Assignment of learners' gradients to processes and devices."""

from __future__ import annotations

from collections.abc import Mapping


def spread_learners(costs: Mapping[str, float], devices: int) -> dict[str, int]:
    """Share learners out so that the busiest device has little more to do than the others.

    The costliest learner goes first, each to the device that has least. The busiest one has at most the mean
    plus (1 - 1/devices) of the costliest learner. Source: Graham, SIAM J. Appl. Math. 17(2), 1969.

    Args:
        costs: learner -> work, such as tokens that it learns from; 0 or more.
        devices: how many there are, 1 or more.

    Returns:
        Learner -> number of its device, from 0, whatever the order in which learners are given.
    """
    loads = [(0.0, 0)] * devices
    placed: dict[str, int] = {}
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        device = min(range(devices), key=lambda number: (*loads[number], number))
        load, learners = loads[device]
        loads[device] = (load + costs[name], learners + 1)
        placed[name] = device
    return placed
