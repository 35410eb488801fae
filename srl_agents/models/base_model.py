"""One frozen base model, the adapters that learn on it, and frozen versions that only play.

An adapter is a pair of LoRA factors per layer, or a whole copy of the weights: `weights.lora` and
`weights.full` say what either costs. A frozen version is plain tensors. The reference policy is the
base with the adapters off. Code that samples or trains borrows the model from here; no other module
loads one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch.distributed.device_mesh import DeviceMesh
from transformers import GenerationConfig, PreTrainedModel

from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.digests import version_of
from srl_agents.models.float32_islands import Island
from srl_agents.models.model_loading import (
    Attention,
    Dtype,
    LoadingForm,
    Quantization,
    load_model,
    map_model,
)
from srl_agents.models.playing_model import PlayingModel
from srl_agents.models.prompt import EarlierTurn, Example, Prompt
from srl_agents.models.sharded_layers import ShardedLayers
from srl_agents.models.sources import catalog
from srl_agents.models.weights.full import FullWeights
from srl_agents.models.weights.lora import LoRAWeights
from srl_agents.models.weights.lora_targets import Targets
from srl_agents.models.weights.policy import ANCHOR, Parameters, PolicyWeights
from srl_agents.records import WeightVersion
from srl_envs.errors import ConfigError, UnknownPolicyError, nearest

Activation = Literal["start", "reply"]
_BASE = "__base__"
"""PEFT's word for no adapter."""


def limit_threads() -> None:
    """Use one torch thread, or SRL_TORCH_THREADS of them.

    With any other load on the machine, OpenMP's spin waits make two threads many times slower
    than one.

    Raises:
        ConfigError: the variable holds no number of threads.
    """
    wanted = os.environ.get("SRL_TORCH_THREADS", "1")
    if not wanted.isdigit() or int(wanted) < 1:
        raise ConfigError(f"SRL_TORCH_THREADS={wanted!r}: use a whole number, 1 or more.")
    torch.set_num_threads(int(wanted))


class BaseModel:
    """A frozen causal language model, its tokenizer and its adapters."""

    def __init__(
        self,
        name: str,
        model: Any,
        chat: ChatTokenizer,
        *,
        lora_rank: int,
        lora_alpha: float,
        lora_targets: Targets = "all-linear",
        lora_excluded: tuple[str, ...] = (),
        lora_activation: Activation = "start",
        parameters: Parameters = "lora",
        frozen_in_memory: int = 2,
        sharded: ShardedLayers | None = None,
    ) -> None:
        """Take over a loaded model; `load` is the usual way in.

        Args:
            name: how the user called the model.
            model: a transformers causal language model; it is frozen and wrapped here.
            chat: its tokenizer, and what stands before every observation.
            lora_rank: rank of every adapter.
            lora_alpha: LoRA scale; the update is multiplied by lora_alpha / lora_rank.
            lora_targets: layers that have LoRA factors.
            lora_excluded: names of modules in which no layer has them.
            lora_activation: from which token on adapters act.
            parameters: what an adapter is; ``full`` is a whole copy of the weights.
            frozen_in_memory: most frozen whole copies that wait in memory for their next batch.
            sharded: the model's layers, where processes divide them; only with LoRA.
        """
        self.name = name
        self.chat = chat
        tokenizer = chat.tokenizer
        self.device = torch.device(model.device)
        self.eos_token_ids = _eos_token_ids(model, tokenizer)
        self.activated_tokens = 0
        """Last tokens of each prompt on which adapters act, as on the reply; 0: they act on all."""
        pad = tokenizer.pad_token_id
        # Recipes in a hub model's generation_config (top_k, penalties) would change the sampling.
        model.generation_config = GenerationConfig(pad_token_id=pad)
        if parameters == "full":
            ends = GenerationConfig(pad_token_id=pad, eos_token_id=sorted(self.eos_token_ids))
            self._weights: PolicyWeights = FullWeights(
                model, tokenizer, ends, frozen_in_memory=frozen_in_memory
            )
        else:
            opening = chat.reply_opening() if lora_activation == "reply" else ()
            self.activated_tokens = len(opening)
            self._weights = LoRAWeights(
                model,
                opening=opening,
                rank=lora_rank,
                alpha=lora_alpha,
                targets=lora_targets,
                excluded=lora_excluded,
                sharded=sharded,
            )
        self._sharded = sharded
        self.model: Any = self._weights.model

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        lora_rank: int = 8,
        lora_alpha: float = 16,
        lora_targets: Targets = "all-linear",
        lora_excluded: tuple[str, ...] = (),
        lora_activation: Activation = "start",
        parameters: Parameters = "lora",
        frozen_in_memory: int = 2,
        dtype: Dtype = "auto",
        quantization: Quantization = "none",
        attention: Attention = "auto",
        float32_islands: tuple[Island, ...] = (),
        device: str = "auto",
        prompt: Prompt | None = None,
        weights: Path | None = None,
        mesh: DeviceMesh | None = None,
    ) -> BaseModel:
        """Load a model by catalog name, hub id or folder.

        Args:
            name_or_path: ``tiny``, ``smollm2-135m``, a hub id, or a local folder.
            lora_rank: rank of every adapter, 1 or more.
            lora_alpha: LoRA scale.
            lora_targets: all linear layers but the output head, or names of layers (``q_proj``).
            lora_excluded: names of modules in which no layer has factors.
            lora_activation: ``start`` lets adapters act on all tokens, ``reply`` from the template's words
                before a reply on.
            parameters: what an adapter is: LoRA factors, or with ``full`` a copy of all weights.
            frozen_in_memory: most frozen whole copies that wait in memory for their next batch,
                1 or more.
            dtype: of the frozen weights, ``auto`` by their size; adapters are float32 always.
            quantization: ``nf4`` keeps the linear layers of the base in 4 bits.
            attention: which of transformers' functions computes it.
            float32_islands: parts of a base of another type that stay float32.
            device: ``auto`` takes CUDA where there is one, else the CPU.
            prompt: what stands before every observation; nothing if absent.
            weights: file in which another process of this machine shares the model's weights.
            mesh: processes that divide the model's layers; see `ShardedLayers`.

        Raises:
            ConfigError: rank, targets, dtype or device make no sense here.
            ModelError: the model cannot be fetched or loaded, or has no chat template.
            MemoryLimitError: it does not fit into memory.
        """
        if lora_rank < 1:
            raise ConfigError(f"lora_rank={lora_rank}: use 1 or more.")
        if frozen_in_memory < 1:
            raise ConfigError(f"frozen_in_memory={frozen_in_memory}: use 1 or more.")
        form = LoadingForm(
            dtype=dtype,
            quantization=quantization,
            attention=attention,
            float32_islands=float32_islands,
        )
        check_parameters(parameters, form)
        limit_threads()
        folder = catalog.resolve(str(name_or_path))
        place = device_named(device)
        if weights is None:
            first = place if mesh is None else torch.device("cpu")
            model = load_model(folder, form, first, whole=parameters == "full")
        else:
            model = map_model(folder, form, weights)
        sharded = None if mesh is None else ShardedLayers(model, mesh, place)
        return cls(
            str(name_or_path),
            model,
            ChatTokenizer.load(folder, prompt),
            lora_rank=lora_rank,
            lora_alpha=lora_alpha,
            lora_targets=lora_targets,
            lora_excluded=lora_excluded,
            lora_activation=lora_activation,
            parameters=parameters,
            frozen_in_memory=frozen_in_memory,
            sharded=sharded,
        )

    # Text and tokens

    @property
    def prompt(self) -> Prompt:
        """The prompt before every observation."""
        return self.chat.prompt

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers."""
        return self.chat.tokenizer

    def encode_prompt(
        self,
        observation: str,
        examples: tuple[Example, ...] = (),
        earlier: tuple[EarlierTurn, ...] = (),
        longest: int | None = None,
    ) -> tuple[int, ...]:
        """See `ChatTokenizer`."""
        return self.chat.encode_prompt(observation, examples, earlier, longest)

    def encode_reply(self, reply: str) -> tuple[int, ...]:
        """See `ChatTokenizer`."""
        return self.chat.encode_reply(reply)

    def decode(self, ids: tuple[int, ...] | list[int]) -> str:
        """See `ChatTokenizer`."""
        return self.chat.decode(ids)

    @property
    def context_length(self) -> int:
        """Longest sequence, prompt and reply together, in tokens."""
        return int(self.model.config.get_text_config().max_position_embeddings)

    # Adapters

    @property
    def parameters(self) -> Parameters:
        """What an adapter is here: LoRA factors, or a whole copy of the weights."""
        return self._weights.kind

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of all adapters, in the order in which they were added."""
        return self._weights.names

    def add_adapter(self, name: str, seed: int) -> None:
        """Add an adapter that changes nothing yet.

        Args:
            name: of the adapter.
            seed: of what is drawn: LoRA's A, while B is 0. Whole weights are a copy of the base's.

        Raises:
            ConfigError: the name is taken, empty or holds a dot.
        """
        self._require_free(name)
        self._weights.add(name, seed)

    def _require_free(self, name: str) -> None:
        taken = (*self.adapters, *self.frozen)
        if not name or "." in name or name in (_BASE, ANCHOR, *taken):
            raise ConfigError(
                f"adapter name {name!r} is empty, holds a dot or is taken; present are {list(taken)}."
            )

    def remove_adapter(self, name: str) -> None:
        """Forget an adapter and free its memory."""
        self.require(name)
        if self.active == name:
            self.activate(None)
        self._weights.remove(name)

    def activate(self, name: str | None) -> None:
        """Make `name` the one trainable adapter; None freezes everything."""
        if name is not None:
            self.require(name)
        self._weights.activate(name)

    @property
    def active(self) -> str | None:
        """The trainable adapter."""
        return self._weights.active

    def reference(self) -> AbstractContextManager[None]:
        """Inside, the model is the frozen base: all adapters are off."""
        return self._weights.through(None)

    def through(self, name: str | None) -> AbstractContextManager[None]:
        """Inside, forwards pass through one version; what can be trained stays as it is.

        Args:
            name: of an adapter or a frozen version; None is the base.

        Raises:
            UnknownPolicyError: the version does not exist.
        """
        if name is not None:
            self.require_playable(name)
        return self._weights.through(name)

    def learning(self, adapters: Sequence[str]) -> AbstractContextManager[None]:
        """Inside, row i of a batch passes through ``adapters[i]``, and gradients reach all of them.

        Args:
            adapters: one per row of every batch that is run inside; equal ones stand together.

        Raises:
            ConfigError: whole weights cannot share a pass.
        """
        for name in set(adapters):
            self.require(name)
        return self._weights.learning(adapters)

    def acting(self, places_RL: torch.Tensor) -> AbstractContextManager[None]:
        """Inside, adapters that wait for the reply act at these places; others act everywhere.

        Args:
            places_RL: (R, L) or (1, L) True where a token belongs to the last `activated_tokens` of a prompt,
                or to a reply.
        """
        if isinstance(self._weights, LoRAWeights) and self.activated_tokens:
            return self._weights.acting(places_RL[..., None])
        return nullcontext()

    def whole(self) -> AbstractContextManager[None]:
        """Inside, engines have all weights, also those that processes divide; all of these enter together."""
        return nullcontext() if self._sharded is None else self._sharded.whole()

    def playing(self) -> PlayingModel:
        """The model as one engine runs it; it sees versions that are frozen later."""
        return self._weights.playing()

    def trainable_parameters(self, name: str) -> dict[str, torch.nn.Parameter]:
        """The adapter's own parameters by their names in files, not copies."""
        self.require(name)
        return self._weights.trainable(name)

    def tensors_of(self, name: str) -> dict[str, torch.Tensor]:
        """An adapter's or frozen version's tensors by their names in files; not copies, to read only."""
        self.require_playable(name)
        return self._weights.tensors(name)

    @property
    def frozen_parameters(self) -> list[torch.nn.Parameter]:
        """The base's own, without those of adapters."""
        adapted = {id(p) for name in self.adapters for p in self._weights.trainable(name).values()}
        return [p for p in self.model.parameters() if id(p) not in adapted]

    def adapter_tensors(self, name: str) -> dict[str, torch.Tensor]:
        """Copies of an adapter's or frozen version's tensors on the CPU, named as in files."""
        self.require_playable(name)
        own = self._weights.tensors(name)
        return {key: tensor.to("cpu", copy=True) for key, tensor in own.items()}

    def set_adapter_tensors(self, name: str, tensors: dict[str, torch.Tensor]) -> None:
        """Overwrite an adapter in place.

        Raises:
            ModelError: the tensors have other names or shapes than this base's adapters.
        """
        self.require(name)
        self._weights.overwrite(name, tensors)

    def save_adapter(self, name: str, folder: Path) -> None:
        """Write a folder that PEFT loads, or, of whole weights, transformers."""
        self.require(name)
        self._weights.save(name, folder)

    def load_adapter(self, name: str, folder: Path) -> None:
        """Read such a folder into `name`, which is added when it does not exist.

        Raises:
            ModelError: the folder holds no adapter, or one of another base or rank.
        """
        if name not in self.adapters:
            self._require_free(name)
        self._weights.load(name, folder)

    def require(self, name: str) -> None:
        """Refuse whatever is not an adapter.

        Raises:
            ConfigError: it is a frozen version.
            UnknownPolicyError: the name does not exist.
        """
        if name in self.frozen:
            raise ConfigError(
                f"{name!r} is frozen: it plays and never learns. Load it under another name to train it."
            )
        if name not in self.adapters:
            raise UnknownPolicyError(
                f"no adapter {name!r} on {self.name}.{nearest(name, self.adapters)} "
                f"Present: {list(self.adapters)}."
            )

    # Frozen versions

    @property
    def frozen(self) -> tuple[str, ...]:
        """Names of all frozen versions, in the order in which they were added."""
        return self._weights.frozen

    def freeze(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Add a version that plays these tensors and never learns.

        Whole weights are kept and not copied where device and type allow. When their owner writes to
        them, the version is refused from then on.

        Args:
            name: of the version.
            tensors: by the names in files.

        Raises:
            ConfigError: the name is taken, empty or holds a dot.
            ModelError: the tensors have other names or shapes than this base's adapters.
        """
        self._require_free(name)
        self._weights.freeze(name, tensors)

    def freeze_adapter(self, name: str, number: int = 0) -> WeightVersion:
        """Freeze what an adapter is now, under the name of its weights.

        Args:
            name: of the adapter.
            number: updates that it has had.
        """
        tensors = self.adapter_tensors(name)
        version = version_of(name, number, tensors)
        if str(version) not in self.frozen:
            self.freeze(str(version), tensors)
        return version

    def load_frozen(self, name: str, folder: Path) -> None:
        """Add a version that plays what the folder holds. Whole weights stay there until needed.

        Raises:
            ConfigError: the name is taken, empty or holds a dot.
            ModelError: the folder holds no adapter, or one of another base or rank.
        """
        self._require_free(name)
        self._weights.load_frozen(name, folder)

    def forget(self, name: str) -> None:
        """Drop a frozen version; dropping it again does nothing."""
        if name in self.frozen:
            self._weights.forget(name)

    def require_playable(self, name: str) -> None:
        """Raise UnknownPolicyError unless there is such an adapter or frozen version."""
        present = (*self.adapters, *self.frozen)
        if name not in present:
            raise UnknownPolicyError(
                f"no adapter or version {name!r} on {self.name}.{nearest(name, present)} "
                f"Present: {list(present)}."
            )


def check_parameters(parameters: str, form: LoadingForm) -> None:
    """Refuse a kind of weights that there is not, or that cannot learn in this form.

    Raises:
        ConfigError: the kind is unknown; the message names those that exist.
    """
    if parameters not in ("lora", "full"):
        raise ConfigError(f"parameters={parameters!r}: use 'lora' or 'full'.")
    if parameters == "full" and form.dtype == "bfloat16":
        raise ConfigError(
            f"dtype={form.dtype!r} with parameters='full': whole weights in this type would round small "
            "steps away. Use float32; training.autocast makes passes in bfloat16 over it."
        )
    if parameters == "full" and form.quantization != "none":
        raise ConfigError(
            f"quantization={form.quantization!r} with parameters='full': weights in 4 bits cannot learn. "
            "Use parameters 'lora', or quantization 'none'."
        )


def device_named(name: str) -> torch.device:
    """What ``auto``, ``cpu``, ``cuda`` or ``cuda:1`` means on this machine.

    Raises:
        ConfigError: the device does not exist.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device={name!r}: use 'auto', 'cpu' or 'cuda'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device={name!r}: this machine has no CUDA device; use 'cpu'.")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        raise ConfigError(
            f"device={name!r}: this machine has {count} CUDA devices, from 'cuda:0' on."
        )
    return device


def _eos_token_ids(model: PreTrainedModel, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a reply: the tokenizer's and those that the model declares."""
    declared = model.generation_config.eos_token_id
    ids = [] if declared is None else [declared] if isinstance(declared, int) else list(declared)
    return frozenset([tokenizer.eos_token_id, *ids])
