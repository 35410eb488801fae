"""One run in several processes: each holds every learner, does a share of the work, and sends its results.

Every process plays a part of the matches and computes the gradients of some learners, or of a share of
every learner's rows where learners do not come out even. What they found goes round, and all then take the
same decisions and the same steps. So a coordinator meets all members in every process, and no process is
special but the first, which owns the run's folder. Started by ``torchrun``, whose environment variables
say who is who.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.rendezvous import rendezvous

from srl_agents.coordination.wire import from_bytes, to_bytes
from srl_envs.errors import ConfigError, ModelError

T = TypeVar("T")

_library: Any = distributed
"""Names of it that have no types."""
_TOLD = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""What torchrun sets. Libraries that read it would wait for each other at every step."""
_NEEDED = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables that torchrun sets and that a process needs if it is one of several."""
_PATIENCE = timedelta(hours=2)
"""For the slowest process of an update; torchrun ends all when one dies."""


class LostProcessError(ModelError):
    """Another process of the run is gone."""


class Processes:
    """The processes of one run, seen from one of them.

    Args:
        rank: which one this is, from 0.
        size: how many there are.
        group: connects the processes; None for a single process.
        store: of their addresses; None for a single process.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        group: Any = None,
        store: Any = None,
    ) -> None:
        self.rank, self.size, self._group = rank, size, group
        self._store = store
        self._mesh: DeviceMesh | None = None

    @classmethod
    def join(cls, device: str) -> Processes:
        """The processes that ``torchrun`` started with this one, or only this process.

        Afterwards the environment has torchrun's variables no more.

        Args:
            device: that models will be on. With ``auto`` and ``cuda`` each process of a machine takes
                a GPU of its own, as long as there are enough.

        Raises:
            ConfigError: the environment gives a number of processes, but not the rank of this one.
        """
        if (world_size := os.environ.get("WORLD_SIZE", "1")) == "1":
            _forget()
            return cls()
        if missing := [name for name in _NEEDED if not os.environ.get(name)]:
            raise ConfigError(
                f"the environment has WORLD_SIZE={world_size}, the number of processes of a run, "
                f"but no {', '.join(missing)}. Start them with torchrun, or unset WORLD_SIZE."
            )
        store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
        take_own_gpu(device, int(os.environ["LOCAL_RANK"]))
        _forget()
        group = distributed.ProcessGroupGloo(store, rank, size, _PATIENCE)
        return cls(rank, size, group, store)

    @property
    def first(self) -> bool:
        """Whether this process owns the run's folder."""
        return self.rank == 0

    def mine(self, number: int) -> bool:
        """Whether work of that number, of any kind, is this process's."""
        return number % self.size == self.rank

    def mesh(self, device: str) -> DeviceMesh:
        """The processes as the mesh that torch's divided tensors require; always the same.

        Args:
            device: ``cpu`` (gloo) or ``cuda`` (NCCL).

        Raises:
            ConfigError: the run has one process.
        """
        if self._store is None:
            raise ConfigError(
                "memory.sharded: a run of one process cannot divide the base. Start several with "
                "torchrun, or leave it out."
            )
        if self._mesh is None:
            distributed.init_process_group(
                "gloo" if device == "cpu" else "nccl",
                store=_library.PrefixStore("mesh", self._store),
                rank=self.rank,
                world_size=self.size,
                timeout=_PATIENCE,
            )
            self._mesh = init_device_mesh(device, (self.size,))
        return self._mesh

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank; returns when all have given one.

        Args:
            value: see `to_bytes`.

        Raises:
            ModelError: what another process gave cannot be read.
            LostProcessError: another process is gone.
        """
        if self._group is None:
            return [value]
        own = torch.frombuffer(bytearray(to_bytes(value)), dtype=torch.uint8)
        lengths = [int(length) for length in self._all(torch.tensor([len(own)]))]
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        padded[: len(own)] = own
        return [
            from_bytes(given[:length].numpy().tobytes())
            for given, length in zip(self._all(padded), lengths, strict=True)
        ]

    def from_first(self, value: Any) -> Any:
        """What the first process gives, in all of them.

        Args:
            value: see `to_bytes`; in other processes it is not read.

        Raises:
            ModelError: what it gave cannot be read.
            LostProcessError: another process is gone.
        """
        if self._group is None:
            return value
        own = to_bytes(value) if self.first else b""
        length = torch.tensor([len(own)])
        self._share(length)
        given = torch.zeros(int(length), dtype=torch.uint8)
        if self.first:
            given = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        self._share(given)
        return value if self.first else from_bytes(given.numpy().tobytes())

    def interleave(self, mine: Sequence[T]) -> list[T]:
        """Results of work that was shared out by `mine`, in the order of its numbers."""
        parts = self.gather(list(mine))
        total = sum(map(len, parts))
        return [parts[number % self.size][number // self.size] for number in range(total)]

    def sum(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Sums over all processes, bit for bit the same in each; who lacks a tensor adds 0.

        Args:
            tensors: on the CPU; tensors of one name have one shape in all processes.

        Returns:
            All names that any process gave; float32, or float64 where that came in.
        """
        shapes: dict[str, torch.Size] = {}
        wide = False
        for given, double in self.gather(
            (
                {name: tensor.shape for name, tensor in tensors.items()},
                any(tensor.dtype == torch.float64 for tensor in tensors.values()),
            )
        ):
            shapes |= given
            wide |= double
        dtype = torch.float64 if wide else torch.float32
        parts = [
            tensors[name].flatten().to(dtype)
            if name in tensors
            else torch.zeros(shape.numel(), dtype=dtype)
            for name, shape in sorted(shapes.items())
        ]
        flat = torch.cat(parts) if parts else torch.zeros(0, dtype=dtype)
        if self._group is not None and len(flat):
            with _others_there():
                self._group.allreduce([flat]).wait()
        split = torch.split_with_sizes(flat, [shapes[name].numel() for name in sorted(shapes)])
        return {
            name: part.reshape(shapes[name])
            for name, part in zip(sorted(shapes), split, strict=True)
        }

    def require_equal(self, what: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Stop before processes that went different ways go on.

        Args:
            what: they are, in words.
            tensors: that should be the same in all processes, bit for bit.

        Raises:
            ModelError: they are not.
        """
        if self.size == 1:
            return
        seen = hashlib.sha256()
        for name in sorted(tensors):
            seen.update(name.encode())
            seen.update(tensors[name].detach().cpu().contiguous().view(torch.uint8).numpy().data)
        if len(set(self.gather(seen.hexdigest()))) > 1:
            raise ModelError(
                f"{what} differ between the processes of this run: give all of them the same kind of "
                "device, the same packages and the same files."
            )

    def _all(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        given = [torch.zeros_like(tensor) for _ in range(self.size)]
        with _others_there():
            self._group.allgather([given], [tensor]).wait()
        return given

    def _share(self, tensor: torch.Tensor) -> None:
        """Let all have the first process's."""
        with _others_there():
            self._group.broadcast(tensor, 0).wait()


@contextmanager
def _others_there() -> Iterator[None]:
    """Inside, the end of another process is an error of ours."""
    try:
        yield
    except RuntimeError as error:
        words = str(error).strip().splitlines()
        raise LostProcessError(
            f"another process of this run is gone ({words[0] if words else type(error).__name__})."
        ) from error


def take_own_gpu(device: str, number: int) -> None:
    """Make one GPU this process's current one, if models will be on the current one.

    Args:
        device: of the recipe; one with a number, or the CPU, is used as it is.
        number: of the process on this machine.
    """
    if device in ("auto", "cuda") and torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())


def started_processes() -> int:
    """How many processes ``torchrun`` started with this one, before `Processes.join`.

    Raises:
        ConfigError: the environment has something else than a number there.
    """
    text = os.environ.get("WORLD_SIZE", "1")
    if not (text.isdecimal() and int(text) > 0):
        raise ConfigError(
            f"the environment has WORLD_SIZE={text!r}: expected a whole number of processes. Start them with "
            "torchrun, or unset WORLD_SIZE."
        )
    return int(text)


def _forget() -> None:
    for name in _TOLD:
        os.environ.pop(name, None)
