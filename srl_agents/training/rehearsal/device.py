"""A device named ``card`` whose tensors have shapes and types and no numbers.

The registration is of the whole process and cannot be taken back: `srl_agents.training.rehearsal.own_process`
runs in a process of its own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

CARD = "card"


class _Module:
    """What torch and its users ask of a backend, as ``torch.card``; it has one device and no state."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """Does nothing: a rehearsal draws no random numbers."""

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    @staticmethod
    def get_rng_state(device: Any = None) -> torch.Tensor:
        """Checkpointing keeps it for the second forward pass."""
        return torch.zeros(1, dtype=torch.uint8)

    @staticmethod
    def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
        """Does nothing: a rehearsal draws no random numbers."""

    @staticmethod
    def device(index: Any) -> AbstractContextManager[None]:
        return nullcontext()


def register() -> FakeTensorMode:
    """Give this process the device; tensors made inside the mode have no numbers.

    Tensors of the CPU that enter an operation with those of the card raise, as on a card; zero-dimensional
    ones may, as on a card.
    """
    _setup_privateuseone_for_python_backend(CARD, backend_module=_Module())
    return FakeTensorMode(allow_non_fake_inputs=True)
