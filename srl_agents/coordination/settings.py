"""How the updates of several learners are combined: frozen data, checked when made, without torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Literal

from srl_envs.errors import ConfigError

Kind = Literal[
    "independent", "synchronized", "federated", "selective", "asynchronous", "distillation"
]

_READS = MappingProxyType(
    {
        "independent": (),
        "synchronized": (),
        "federated": (
            "every", "local_share", "weights", "temperature", "merge", "moments",
            "performance_decay",
        ),
        "selective": ("select", "top_k", "sign_agreement", "performance_decay"),
        "asynchronous": ("ready_rows", "mixing", "staleness_power", "merge", "moments"),
        "distillation": ("teacher_weight", "teacher_limit", "performance_decay"),
    }
)  # fmt: skip
"""Settings that each kind reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinationSettings:
    """One kind of coordination and what it reads; setting what another kind reads is refused."""

    kind: Kind = "independent"
    """``independent`` shares nothing; the others are described in ``docs/design/coordination.md``."""
    every: int = 5
    """federated: updates between two merges."""
    local_share: float = 0.5
    """federated: how much of itself a learner keeps, in [0, 1]."""
    weights: Literal["performance", "rows", "even"] = "performance"
    """federated: what a learner's share of the common part follows: its running mean of
    reward, the rows it trained on since the last merge, or nothing."""
    temperature: float = 0.2
    """federated, by performance: weights are softmax(performance / temperature); in reward units."""
    merge: Literal["product", "factors"] = "product"
    """federated, asynchronous: average what the learners' weights do, which of LoRA adapters means
    B @ A, factored again, and of whole weights every entry; or, LoRA alone, average A and B apart."""
    moments: Literal["reset", "keep"] = "reset"
    """federated, asynchronous: the optimizer's moments after a merge."""
    select: Literal["top", "signs"] = "top"
    """selective: the best learners step, or only entries of the gradient whose signs agree do."""
    top_k: int = 1
    """selective, top: how many step; those that tie with the last of them step too."""
    sign_agreement: float = 1.0
    """selective, signs: |sum of signs| / learners that an entry needs, in (0, 1]."""
    ready_rows: int = 64
    """asynchronous: rows that a learner trains on before it merges."""
    mixing: float = 0.5
    """asynchronous: weight in [0, 1] of a learner that is not stale."""
    staleness_power: float = 0.5
    """asynchronous: the weight is mixing * (1 + staleness)^-power."""
    teacher_weight: float = 0.1
    """distillation: weight of the divergence from the best learner, per token."""
    teacher_limit: float = 5.0
    """distillation: nats; most that one token's divergence counts."""
    performance_decay: float = 0.8
    """federated, selective, distillation: share of the old running mean of reward that an update
    leaves, in [0, 1)."""

    def __post_init__(self) -> None:
        reads = _READS.get(self.kind)
        if reads is None:
            raise ConfigError(f"kind={self.kind!r}: use one of {', '.join(_READS)}.")
        for field in fields(self):
            if field.name in ("kind", *reads) or getattr(self, field.name) == field.default:
                continue
            users = [kind for kind, names in _READS.items() if field.name in names]
            raise ConfigError(
                f"kind={self.kind!r} does not read {field.name!r}, {' and '.join(users)} does: "
                "remove it or choose that kind."
            )
        for name in ("every", "top_k", "ready_rows"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "1 or more")
        for name in ("local_share", "mixing"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) <= 1, "0 to 1")
        for name in ("staleness_power", "teacher_weight"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        for name in ("temperature", "teacher_limit"):
            _check(name, getattr(self, name), getattr(self, name) > 0, "more than 0")
        share, decay = self.sign_agreement, self.performance_decay
        _check("sign_agreement", share, 0 < share <= 1, "more than 0, at most 1")
        _check("performance_decay", decay, 0 <= decay < 1, "0 to below 1")

    @property
    def starts_alike(self) -> bool:
        """Whether all learners get the same initial weights.

        Gradients and signs of factors mean the same only where the factors are the same to begin
        with; merged learners then have one origin. Copies of whole weights begin as the base anyway.
        """
        return self.kind in ("synchronized", "federated", "asynchronous") or (
            self.kind == "selective" and self.select == "signs"
        )

    def check_learners(self, learners: int) -> None:
        """Raise ConfigError unless this many learners can be coordinated."""
        if self.kind != "independent" and learners < 2:
            raise ConfigError(
                f"kind={self.kind!r} coordinates several learners, and there is {learners}: "
                "add another or use 'independent'."
            )
        if self.kind == "selective" and self.select == "top" and self.top_k >= learners:
            raise ConfigError(
                f"top_k={self.top_k} of {learners} learners selects nobody out: use fewer."
            )


def _check(name: str, value: float, fits: bool, allowed: str) -> None:
    if not fits:
        raise ConfigError(f"{name}={value}: use {allowed}.")
