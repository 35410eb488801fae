"""Several of TRL's trainers on one model: each patches the forward, so each keeps its own patch.

TRL's fused heads differ in what they compute. The model wears a trainer's head only while that
trainer works, so the order in which trainers were built makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from srl_agents.models.base_model import BaseModel

_FORWARD = "forward"


class OwnHead:
    """The head of one trainer.

    Build the trainer inside `patching`, let it work inside `worn`.

    Args:
        base: whose model is patched.
    """

    def __init__(self, base: BaseModel) -> None:
        self._model: Any = base.model.get_base_model()
        self._head: Any = None

    @contextmanager
    def patching(self) -> Iterator[None]:
        """Inside, TRL may patch the forward; afterwards the model's is as it was."""
        before = self._model.__dict__.get(_FORWARD)
        try:
            yield
            self._head = self._model.__dict__.get(_FORWARD)
        finally:
            self._wear(before)

    @contextmanager
    def worn(self) -> Iterator[None]:
        """Inside, the model has this trainer's head."""
        before = self._model.__dict__.get(_FORWARD)
        self._wear(self._head)
        try:
            yield
        finally:
            self._wear(before)

    def _wear(self, head: Any) -> None:
        if head is None:
            self._model.__dict__.pop(_FORWARD, None)
        else:
            self._model.forward = head
