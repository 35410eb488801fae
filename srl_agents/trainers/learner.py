"""Optimizer, steps and state of a learner, the same for every loss.

An algorithm is one file with a subclass that builds TRL's trainer and puts gradients on the adapter.
"""

from __future__ import annotations

import math
import random
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from srl_agents.models.base_model import BaseModel
from srl_agents.models.memory.available import memory_limit
from srl_agents.models.quiet import quiet_libraries
from srl_agents.trainers import optimizer_state
from srl_agents.trainers.prefix_sharing import Sharing
from srl_agents.trainers.update_settings import UpdateSettings
from srl_envs.errors import CheckpointError, ConfigError, FaultError, ModelError, ShapeError

_EXTRA = "extra/"
"""Begins the names of extras among a checkpoint's tensors."""
_LARGEST = 1e6
"""No weight that learned anything is as large. Two factors of this size multiply to 1e12, and norms take
the squares of what comes of it: not much larger ones leave float32, in the next forward pass."""


class Batch(Protocol):
    """Experience of one learner."""

    @property
    def learner(self) -> str:
        """Name of the learner that the batch belongs to."""

    @property
    def rows(self) -> int:
        """Number of rows."""


@runtime_checkable
class DivisibleBatch(Batch, Protocol):
    """Experience whose gradient is the sum of its shares' gradients."""

    def share(self, part: int, parts: int) -> Batch | None:
        """One of so many shares; None where there is too little for all."""


B = TypeVar("B", bound=Batch)


@dataclass(frozen=True, kw_only=True, slots=True)
class Extras:
    """What learns beside the adapter, such as a value head: of no concern to coordination."""

    parameters: dict[str, torch.nn.Parameter] = field(default_factory=dict)
    learning_rate: float = 0.0
    """Follows the schedule of the adapter's."""


class AdapterLearner(ABC, Generic[B]):
    """One adapter that learns. Learners of one base take turns; they share no state."""

    def __init__(
        self,
        name: str,
        base: BaseModel,
        settings: UpdateSettings,
        seed: int,
        extras: Extras | None = None,
    ) -> None:
        """Add the adapter if it does not exist, and build its optimizer.

        Args:
            name: of the adapter.
            base: the shared base.
            settings: of the updates.
            seed: of a new adapter's weights.
            extras: what else learns, clipped apart from the adapter; nothing if absent.
        """
        if settings.gradient_checkpointing == "auto":
            raise ConfigError(
                "gradient_checkpointing='auto' needs the plan of a run; use true or false here."
            )
        self.name = name
        self.base = base
        self.seed = seed
        self.version = 0
        """Changes of the weights: optimizer steps and merges."""
        self._optimizer_name = settings.optimizer
        self._max_grad_norm = settings.max_grad_norm
        self._iterations = settings.iterations
        self.micro_batch_rows = settings.micro_batch_rows
        """Rows in one pass; memory that ran out lowers it."""
        self._rate_factor = 1.0
        if name not in base.adapters:
            base.add_adapter(name, seed)
        base.activate(name)
        kept, float32 = global_generators_kept(base.device), _adapters_stay_float32(base)
        with tempfile.TemporaryDirectory() as folder, kept, float32, quiet_libraries():
            self._trainer = self._make_trainer(Path(folder))
            if settings.gradient_checkpointing:
                base.model.gradient_checkpointing_enable({"use_reentrant": False})
        self._optimizer = self._trainer.create_optimizer()
        self._extras = (extras or Extras()).parameters
        if extras is not None:
            self._optimizer.add_param_group(
                {"params": [*extras.parameters.values()], "lr": extras.learning_rate}
            )
        self._scheduler = self._trainer.create_scheduler(
            max(settings.total_updates, 1), self._optimizer
        )
        self._rates = list(self._scheduler.base_lrs)
        """The recipe's, whatever a checkpoint or a fault made of them since."""
        self._parameters = list(base.trainable_parameters(name).values())

    # --- what an algorithm is ----------------------------------------------------------------

    @abstractmethod
    def _make_trainer(self, folder: Path) -> Any:
        """TRL's trainer around the shared model, whose active adapter is the learner's.

        Args:
            folder: TRL requires one; it is removed afterwards.
        """

    @abstractmethod
    def _backward(self, batch: B) -> tuple[float, dict[str, float]]:
        """Add the gradient of the loss over the whole batch; returns the loss and metrics."""

    mixes = False
    """Whether `mixed_gradients` can take it together with other learners, where that is faster."""
    sharing = Sharing(False, "the algorithm reads rows one by one")
    """Whether rows share what they begin with, and why."""

    # --- steps -------------------------------------------------------------------------------

    def steps(self, batch: B) -> list[B]:
        """Batches of the optimizer steps of one update."""
        return [batch] * self._iterations

    def update(self, batch: B) -> dict[str, float]:
        """Take all optimizer steps of one batch; metrics of the last."""
        metrics: dict[str, float] = {}
        for part in self.steps(batch):
            metrics = self.compute_gradients(part)
            self.apply_gradients()
        return metrics

    def compute_gradients(self, batch: B) -> dict[str, float]:
        """Put the gradient of the loss over the whole batch on the adapter; take no step.

        Returns:
            ``loss``, ``grad_norm`` before clipping, ``learning_rate`` of the next step,
            ``optimizer_mb`` (state of the optimizer, 0 before its first step), and what the algorithm
            has to say.

        Raises:
            ShapeError: the batch belongs to another learner.
            FaultError: the loss or the gradient is not finite.
            MemoryLimitError: it does not fit into memory.
        """
        self.begin(batch)
        return self.checked(*self.add_gradients(batch))

    def add_gradients(self, batch: B) -> tuple[float, dict[str, float]]:
        """Add the gradient of the loss over a batch, or a share of one, after `begin`.

        Returns:
            The loss and metrics; of a share, what it adds to those of the whole.

        Raises:
            MemoryLimitError: it does not fit into memory.
        """
        with self.memory_limit(f"update on {batch.rows} rows"):
            return self._backward(batch)

    def passes(self, batch: B) -> int:
        """So many does `add_gradients` make over a batch."""
        return math.ceil(batch.rows / self.micro_batch_rows)

    def keep_pace(self, one: B, passes: int) -> None:
        """Make passes that change nothing, where other processes make more and all make theirs together.

        Args:
            one: a row that is learned from.
            passes: so many.
        """
        parameters = (*self._parameters, *self._extras.values())
        gradients = [parameter.grad for parameter in parameters]
        for _ in range(passes):
            self.drop_gradients()
            self._backward(one)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient

    def begin(self, batch: B) -> None:
        """Be ready for gradients on a batch.

        Raises:
            ShapeError: the batch belongs to another learner.
        """
        if batch.learner != self.name:
            raise ShapeError(f"batch of {batch.learner!r} given to learner {self.name!r}.")
        self.base.activate(self.name)
        self.drop_gradients()

    def checked(self, loss: float, metrics: dict[str, float]) -> dict[str, float]:
        """Check that loss and gradients are finite, and return the metrics of `compute_gradients`.

        Raises:
            FaultError: the loss or the gradient is not finite.
        """
        norm = self.gradient_norm
        if not np.isfinite([norm, loss, norm_of(_gradients(self._extras.values()))]).all():
            raise FaultError(
                f"learner {self.name!r}, version {self.version}: loss {loss}, gradient norm "
                f"{norm}. Train again with a lower learning_rate or max_grad_norm.",
                fault="gradient_not_finite" if np.isfinite(loss) else "loss_not_finite",
                learner=self.name,
            )
        return {
            "loss": loss,
            **metrics,
            "grad_norm": norm,
            "learning_rate": self._scheduler.get_last_lr()[0],
            "optimizer_mb": optimizer_state.size(self._optimizer) / 1e6,
        }

    def apply_gradients(self) -> None:
        """Clip, step the optimizer and the schedule, and count one version.

        Raises:
            ModelError: no gradients were computed.
            FaultError: weights or gradients contain NaN or infinite values, or are enormous.
            MemoryLimitError: the optimizer's state does not fit into memory.
        """
        if all(parameter.grad is None for parameter in self._parameters):
            raise ModelError(f"learner {self.name!r} has no gradients: call compute_gradients.")
        if self._max_grad_norm:
            _clip(self._parameters, self._max_grad_norm)
            _clip(self._extras.values(), self._max_grad_norm)
        # bitsandbytes asks the modules, at its first step, which of its tensors are embeddings
        self.base.activate(self.name)
        try:
            with self.memory_limit(f"step of optimizer {self._optimizer_name}"):
                self._optimizer.step()
        except RuntimeError as error:
            if "overflow" not in str(error):  # a step size that no float32 holds
                raise
            raise self._broken("after the step") from error
        if not _sound((*self._parameters, *self._extras.values())):
            raise self._broken("after the step")
        self._scheduler.step()
        self.drop_gradients()
        self.version += 1

    def _broken(self, when: str) -> FaultError:
        return FaultError(
            f"learner {self.name!r}, version {self.version}: its weights contain NaN, or are larger than "
            f"{_LARGEST:g}, {when}. Train again with a lower learning_rate.",
            fault="weights_broken",
            learner=self.name,
        )

    def lower_rate(self, factor: float) -> None:
        """Take steps of `factor` times the recipe's learning rate from now on, checkpoints or not."""
        self._rate_factor = factor
        self._set_rates()

    def _set_rates(self) -> None:
        """Let the schedule go on from where it is, at the recipe's learning rate times the factor."""
        scheduler = self._scheduler
        scheduler.base_lrs = [rate * self._rate_factor for rate in self._rates]
        now = [
            rate * shape(scheduler.last_epoch)
            for rate, shape in zip(scheduler.base_lrs, scheduler.lr_lambdas, strict=True)
        ]
        for group, first, rate in zip(
            self._optimizer.param_groups, scheduler.base_lrs, now, strict=True
        ):
            group["initial_lr"], group["lr"] = first, rate
        scheduler._last_lr = now

    def memory_limit(self, doing: str) -> AbstractContextManager[None]:
        """Inside, running out of memory names the learner and what to lower.

        Args:
            doing: the work and its size.
        """
        rows = f"micro_batch_rows, here {self.micro_batch_rows}, or set gradient_checkpointing"
        where = f"learner {self.name!r}, {doing}, on {self.base.device}"
        return memory_limit(where, f"{rows}; an 8-bit optimizer and rollout.batch_rows help, too")

    @property
    def weight_norm(self) -> float:
        """Norm of all of the adapter's weights together."""
        weights = [parameter.detach() for parameter in self._parameters]
        return get_total_norm(weights).item()

    @property
    def weights(self) -> list[torch.nn.Parameter]:
        """The adapter's own."""
        return self._parameters

    @property
    def critic_weights(self) -> list[torch.nn.Parameter]:
        """Weights that learn beside the adapter."""
        return [*self._extras.values()]

    @property
    def optimizer_tensors(self) -> list[torch.Tensor]:
        """The optimizer's state as it is now; none before its first step."""
        return [
            value
            for state in self._optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]

    @property
    def gradient_norm(self) -> float:
        """Norm of the gradients of the adapter's tensors, before clipping."""
        return norm_of(_gradients(self._parameters))

    @property
    def gradients(self) -> dict[str, torch.Tensor]:
        """The gradients by the adapter's tensor names, to read or to change in place."""
        return {
            key: parameter.grad
            for key, parameter in self.base.trainable_parameters(self.name).items()
            if parameter.grad is not None
        }

    def set_gradients(self, gradients: dict[str, torch.Tensor]) -> None:
        """Put these gradients, by the adapter's tensor names, where `apply_gradients` finds them.

        Raises:
            ShapeError: names or shapes are not those of the adapter.
        """
        own = self.base.trainable_parameters(self.name)
        if {k: p.shape for k, p in own.items()} != {k: g.shape for k, g in gradients.items()}:
            raise ShapeError(f"gradients do not fit the adapter of learner {self.name!r}.")
        for key, parameter in own.items():
            parameter.grad = gradients[key].to(parameter)

    def exported_gradients(self) -> dict[str, torch.Tensor]:
        """All that `compute_gradients` left, the extras' too, on the CPU, for `import_gradients`."""
        exported = {key: gradient.cpu() for key, gradient in self.gradients.items()}
        for name, parameter in self._extras.items():
            if parameter.grad is not None:
                exported[_EXTRA + name] = parameter.grad.cpu()
        return exported

    def import_gradients(self, exported: dict[str, torch.Tensor]) -> None:
        """Be as if `compute_gradients` had been called here and not in another process.

        Args:
            exported: what the same learner's `exported_gradients` gave there.
        """
        self.base.activate(self.name)
        self.drop_gradients()
        extras = {_EXTRA + name: parameter for name, parameter in self._extras.items()}
        own = {**self.base.trainable_parameters(self.name), **extras}
        for key, gradient in exported.items():
            own[key].grad = gradient.to(own[key])

    def drop_gradients(self) -> None:
        """Take no step along what `compute_gradients` left."""
        for parameter in (*self._parameters, *self._extras.values()):
            parameter.grad = None

    def replace_weights(self, tensors: dict[str, torch.Tensor], *, reset_moments: bool) -> None:
        """Go on with other weights, under a new version.

        Args:
            tensors: of the adapter.
            reset_moments: drop the optimizer's moments of the old ones; the schedule stays.

        Raises:
            ModelError: the tensors do not fit; nothing has changed.
            FaultError: they are not finite, or enormous; likewise.
        """
        if not _sound(tensors.values()):
            raise self._broken("after the merge")
        self.base.set_adapter_tensors(self.name, tensors)
        if reset_moments:
            for parameter in self._parameters:
                self._optimizer.state.pop(parameter, None)
        self.version += 1

    # --- state -------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Optimizer, schedule, version and extras as tensors and JSON.

        The adapter's weights are not in it: `BaseModel.adapter_tensors` has them.
        """
        tensors, values = optimizer_state.pack(self._optimizer, self._scheduler)
        for name, parameter in self._extras.items():
            tensors[_EXTRA + name] = parameter.detach().to("cpu", copy=True)
        return tensors, {"version": self.version, "optimizer": self._optimizer_name, **values}

    def load_state(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Continue where `state` was taken, with the recipe's learning rate.

        Raises:
            CheckpointError: it belongs to another optimizer or adapter shape.
        """
        if state["optimizer"] != self._optimizer_name:
            raise CheckpointError(
                f"the checkpoint was made with optimizer={state['optimizer']!r}, the recipe has "
                f"{self._optimizer_name!r}: use the same."
            )
        extras = {
            key.removeprefix(_EXTRA): tensor
            for key, tensor in tensors.items()
            if key.startswith(_EXTRA)
        }
        if {k: t.shape for k, t in extras.items()} != {k: p.shape for k, p in self._extras.items()}:
            raise CheckpointError(
                f"the checkpoint of {self.name!r} holds {sorted(extras)} beside the adapter, the "
                f"recipe needs {sorted(self._extras)} or other shapes: use the same settings."
            )
        own = {key: tensor for key, tensor in tensors.items() if not key.startswith(_EXTRA)}
        try:
            optimizer_state.unpack(self._optimizer, self._scheduler, own, state)
        except ValueError as error:
            raise CheckpointError(f"optimizer state does not fit {self.name!r}: {error}") from error
        with torch.no_grad():
            for name, tensor in extras.items():
                self._extras[name].copy_(tensor)
        self._set_rates()
        self.version = int(state["version"])


def joined_shares(
    shares: Iterable[tuple[float, dict[str, float]]],
) -> tuple[float, dict[str, float]]:
    """Loss and metrics of a batch from what `AdapterLearner.add_gradients` returned for its shares.

    Metrics are shares of means, but for those called ``.../max``.
    """
    whole, metrics = 0.0, dict[str, float]()
    for loss, values in shares:
        whole += loss
        for key, value in values.items():
            if key not in metrics:
                metrics[key] = value
            elif key.endswith("/max"):
                metrics[key] = max(metrics[key], value)
            else:
                metrics[key] += value
    return whole, metrics


def _sound(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether all entries are numbers, none of them enormous."""
    own = [tensor.detach() for tensor in tensors]
    if (
        get_total_norm(own) < _LARGEST
    ):  # then no entry is larger; a norm with NaN or infinite entries fails this comparison
        return True
    return bool(torch.stack([tensor.abs().max() for tensor in own]).max() < _LARGEST)


def _gradients(parameters: Iterable[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def norm_of(gradients: Iterable[torch.Tensor]) -> float:
    """Norm of all of them as one vector."""
    return get_total_norm([*gradients]).item()


def _clip(parameters: Iterable[torch.nn.Parameter], most: float) -> None:
    """torch's `clip_grad_norm_`, which multiplies by 1 what is small enough: the same, in half the time."""
    own = [parameter for parameter in parameters if parameter.grad is not None]
    norm = get_total_norm([p.grad for p in own if p.grad is not None])
    if own and (norm.is_cuda or not most / (norm + 1e-6) >= 1):
        clip_grads_with_norm_(own, most, norm)


@contextmanager
def _adapters_stay_float32(base: BaseModel) -> Iterator[None]:
    """Inside, TRL may build a trainer: beside a base in 4 bits it casts all that learns to bfloat16, which
    rounds small steps away."""
    model = base.model.get_base_model() if base.parameters == "lora" else base.model
    if not getattr(model, "is_loaded_in_4bit", False):
        yield
        return
    model.is_loaded_in_4bit = False
    try:
        yield
    finally:
        model.is_loaded_in_4bit = True


@contextmanager
def global_generators_kept(device: torch.device) -> Iterator[None]:
    """TRL seeds and draws from the process's generators; a neighbour must not notice.

    Args:
        device: the one that may be drawn on beside the CPU. No other one is looked at, as asking a GPU
            for its generator takes memory on it.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (saved, not used)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
