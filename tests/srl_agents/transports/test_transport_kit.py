"""The kit finds every fault that it was written for, in transports that have only that fault."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.testing import transport_kit as kit
from srl_agents.transports.files import WEIGHTS, FilesTransport
from srl_agents.transports.shared import SharedTransport
from srl_agents.transports.updates import Published, headers_of
from srl_envs.errors import ModelError
from srl_envs.testing import ConformanceError

Tensors = dict[str, torch.Tensor]


class RoundsToFloat16(SharedTransport):
    def open(self, update: WeightUpdate) -> Tensors:
        return {
            name: t.half().to(t.dtype) if t.is_floating_point() else t
            for name, t in super().open(update).items()
        }


class CountsPublications(SharedTransport):
    count = 0

    def publish(self, *given: Any, **named: Any) -> WeightUpdate:
        self.count += 1
        return replace(super().publish(*given, **named), handle=str(self.count))


class Believes(SharedTransport):
    """Neither looks at digests when it publishes nor when it opens."""

    def publish(
        self, version: WeightVersion, tensors: Any, previous: Any = None, shown: Any = ()
    ) -> WeightUpdate:
        kept = tensors if self.alias else {k: t.clone() for k, t in tensors.items()}
        update = WeightUpdate(
            version=version, previous=previous, shown=tuple(shown), tensors=headers_of(tensors),
            handle="",
        )  # fmt: skip
        self._held[version] = Published(update, dict(kept))
        return update

    def open(self, update: WeightUpdate) -> Tensors:
        return dict(self._held[update.version].kept)


class ByNameAlone(SharedTransport):
    """Opens whatever the last version of the number is."""

    def open(self, update: WeightUpdate) -> Tensors:
        return dict(next(p.kept for v, p in self._held.items() if v.label == update.version.label))


class ReleasesAll(SharedTransport):
    def release(self, version: WeightVersion) -> None:
        self._held.clear()


class KeepsReleased(SharedTransport):
    def release(self, version: WeightVersion) -> None:
        pass


class ReadsUnverified(FilesTransport):
    def open(self, update: WeightUpdate) -> Tensors:
        try:
            return load_file(Path(update.handle) / WEIGHTS)
        except Exception as error:
            raise ModelError(f"{update.handle} cannot be read: {error}") from error


class WritesInPlace(FilesTransport):
    """Each tensor is a file at its last place, and those that are there are the version."""

    def publish(self, version: WeightVersion, tensors: Any, *rest: Any) -> WeightUpdate:
        update = SharedTransport().publish(version, tensors, *rest)
        for name, tensor in tensors.items():
            (self.folder / str(version)).mkdir(exist_ok=True, parents=True)
            time.sleep(0.03)
            save_file({name: tensor}, self.folder / str(version) / f"{name}.safetensors")
        return update

    def open(self, update: WeightUpdate) -> Tensors:
        found: Tensors = {}
        for path in (self.folder / str(update.version)).glob("*.safetensors"):
            found |= load_file(path)
        if not found:
            raise ModelError("nothing was published here")
        return found

    def release(self, version: WeightVersion) -> None:
        shutil.rmtree(self.folder / str(version), ignore_errors=True)


class ListsOnce(FilesTransport):
    """Opens what was there when it opened first."""

    listed: frozenset[str] = frozenset()

    def open(self, update: WeightUpdate) -> Tensors:
        self.listed = self.listed or frozenset(os.listdir(self.folder))
        if str(update.version) not in self.listed:
            raise ModelError("no publisher runs here")
        return super().open(update)


class ClosesForAll(FilesTransport):
    def close(self) -> None:
        shutil.rmtree(self.folder)


class KeepsTensors(SharedTransport):
    def close(self) -> None:
        self.kept = dict(self._held)
        super().close()


BROKEN: dict[str, tuple[Callable[..., None], Callable[[Path], Any]]] = {
    "rounds": (kit.check_round_trip, lambda _: RoundsToFloat16()),
    "publishes twice": (kit.check_published_twice, lambda _: CountsPublications()),
    "follows the trainer": (kit.check_trainer_goes_on, lambda _: Believes(alias=True)),
    "believes digests": (kit.check_wrong_digest, lambda _: Believes()),
    "opens another": (kit.check_other_update, lambda _: ByNameAlone()),
    "releases all": (kit.check_release, lambda _: ReleasesAll()),
    "releases nothing": (kit.check_release, lambda _: KeepsReleased()),
    "reads damage": (kit.check_damage, ReadsUnverified),
    "reads only the first publisher": (kit.check_taken_over, ListsOnce),
    "closes for others": (kit.check_taken_over, ClosesForAll),
    "frees nothing": (kit.check_close_frees, lambda _: KeepsTensors()),
    "half a publication": (kit.check_killed_publication, WritesInPlace),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_the_kit_finds_the_fault(name: str, tmp_path: Path) -> None:
    check, make = BROKEN[name]
    with pytest.raises(ConformanceError):
        check(make, tmp_path)
