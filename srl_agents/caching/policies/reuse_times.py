"""Estimates, per class of blocks, of the time to the next use, and of the value of keeping a block.

A block's *age* is the time since its last use, in *epochs* whose length the caller decides. Per class and age
the learner has the hazard: uses at that age over blocks that reached it. Evicted blocks go on being counted,
so what the policy did does not bias what it learns. A class with few uses is taken to be like its group, and
a group like all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

EPOCHS = 1024
"""Ages are known up to so many epochs; older blocks are forgotten."""
_STEPS = np.unique(np.round(2 ** np.arange(0, 10, 0.5)).astype(int))
AGE_STARTS: NDArray[np.int64] = np.concatenate([[0], _STEPS]).astype(np.int64)
"""(A,) first epoch of each age bucket: half powers of two."""
_BUCKET_OF_AGE = (np.searchsorted(AGE_STARTS, np.arange(EPOCHS), side="right") - 1).tolist()
AGES = len(AGE_STARTS)

_PRIOR_CHANCE, _PRIOR_AGE = 0.3, 1024.0
"""Before anything is seen: hazard 0.3 / (age + 1024 accesses), so that the newest is worth most."""
_PRIOR_USES = 8.0
"""Uses that the prior counts as."""
_SHARED_USES = 50.0
"""Uses that the mean of all counts as in each group, and its group's in each class: a few prompts, whose
blocks come together."""
_HIGHEST = 0.9


def age_bucket(epochs: int) -> int:
    """The bucket of an age under `EPOCHS`."""
    bucket: int = _BUCKET_OF_AGE[epochs]
    return bucket


class ReuseTimes:
    """Hazards of classes; old evidence counts half after `EPOCHS` epochs.

    Args:
        groups: (C,) group of each class, from 0 on without gaps.
        accesses_per_epoch: about how many, before anything is seen.
        mixtures: of classes that blocks leave when more is known of them, all classes that these may turn
            out to be, themselves included: what is expected of them is what all of these did.
    """

    def __init__(
        self,
        groups: Sequence[int],
        accesses_per_epoch: int,
        mixtures: Mapping[int, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.epoch = 0
        classes = len(groups)
        self._group_C = np.asarray(groups)
        self._mix_CC = np.eye(classes)
        self._mix_GG = np.eye(max(groups) + 1)
        for kind, members in mixtures.items():
            self._mix_CC[kind, list(members)] = 1
            self._mix_GG[groups[kind], [groups[member] for member in members]] = 1
        self._prior_A = _PRIOR_CHANCE / (AGE_STARTS + _PRIOR_AGE / accesses_per_epoch)
        self._width_A = np.diff(np.append(AGE_STARTS, EPOCHS)).astype(np.float64)
        self._waiting_CE = np.zeros((classes, EPOCHS))
        """Blocks not used since, by class and epoch of the last use (modulo `EPOCHS`)."""
        self._uses_CA = np.zeros((classes, AGES))
        self._exposure_CA = np.zeros((classes, AGES))
        """Blocks that stood at this age at the end of an epoch, summed over epochs."""

    def used(self, kind: int, epoch: int) -> None:
        """A block of this class was used in ``epoch``, less than `EPOCHS` ago, and not since."""
        self._waiting_CE[kind, epoch % EPOCHS] += 1

    def reclassified(self, kind: int, other: int, epoch: int) -> None:
        """A block that was used as ``kind`` in ``epoch``, and not since, is of another class now."""
        self._waiting_CE[kind, epoch % EPOCHS] -= 1
        self._waiting_CE[other, epoch % EPOCHS] += 1

    def came_back(self, kind: int, epoch: int) -> None:
        """A block that was used as ``kind`` in ``epoch``, and not since, is used again."""
        age = self.epoch - epoch
        if age < EPOCHS:
            self._waiting_CE[kind, epoch % EPOCHS] -= 1
            self._uses_CA[kind, age_bucket(age)] += 1

    def advance(self) -> None:
        """End the epoch."""
        newest_first = (self.epoch - np.arange(EPOCHS)) % EPOCHS
        self._exposure_CA += np.add.reduceat(self._waiting_CE[:, newest_first], AGE_STARTS, axis=1)
        self.epoch += 1
        self._waiting_CE[:, self.epoch % EPOCHS] = 0
        keep = 0.5 ** (1 / EPOCHS)
        self._uses_CA *= keep
        self._exposure_CA *= keep

    def hazards(self) -> NDArray[np.float64]:
        """(C, A) chance per epoch that a block of this class and age is used."""
        stood_CA = self._exposure_CA + self._uses_CA  # at the start of an epoch at this age
        mean_A = (self._uses_CA.sum(0) + _PRIOR_USES) / (
            stood_CA.sum(0) + _PRIOR_USES / self._prior_A
        )
        shape = int(self._group_C.max()) + 1, AGES
        uses_GA, stood_GA = np.zeros(shape), np.zeros(shape)
        np.add.at(uses_GA, self._group_C, self._uses_CA)
        np.add.at(stood_GA, self._group_C, stood_CA)
        group_GA = _like(self._mix_GG @ uses_GA, self._mix_GG @ stood_GA, mean_A[None, :])
        found_CA = _like(
            self._mix_CC @ self._uses_CA, self._mix_CC @ stood_CA, group_GA[self._group_C]
        )
        return np.minimum(found_CA, _HIGHEST)

    def worth(self) -> NDArray[np.float64]:
        """(C, A) most uses per epoch of space that keeping a block from this age on can bring.

        The best ratio of P(used within t) to the expected time until used or dropped at t: the Gittins
        index of a block, whose only decision is when to drop it. Source: Gittins, JRSS B 41(2), 1979;
        as a cache's rank: Beckmann, Chen and Cidon, NSDI 2018 (there without the best t).
        """
        hazard_CA = self.hazards()
        survives_CA = (1 - hazard_CA) ** self._width_A
        used_CA = 1 - survives_CA
        held_CA = used_CA / hazard_CA
        worth_CA = np.empty_like(hazard_CA)
        ones_C1 = np.ones((len(hazard_CA), 1))
        for start in range(AGES):
            reaches_CT = np.cumprod(
                np.concatenate([ones_C1, survives_CA[:, start:-1]], axis=1), axis=1
            )
            uses_CT = np.cumsum(reaches_CT * used_CA[:, start:], axis=1)
            held_CT = np.cumsum(reaches_CT * held_CA[:, start:], axis=1)
            worth_CA[:, start] = (uses_CT / held_CT).max(axis=1)
        return worth_CA


def _like(
    uses_NA: NDArray[np.float64], stood_NA: NDArray[np.float64], expected_NA: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(N, A) hazards: each row is taken to be a multiple of what is expected, unless it shows else."""
    height_N = (uses_NA.sum(1) + _SHARED_USES) / ((stood_NA * expected_NA).sum(1) + _SHARED_USES)
    found: NDArray[np.float64] = (uses_NA + _SHARED_USES) / (
        stood_NA + _SHARED_USES / (expected_NA * height_N[:, None])
    )
    return found
