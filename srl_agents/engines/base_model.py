"""One frozen base model and the LoRA adapters that live on it: one adapter per policy version.

N policies cost one copy of the base and N adapters. The reference policy is the base with the
adapters off. Whoever samples or trains borrows the model from here; nobody else loads one.
"""

from __future__ import annotations

import copy
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from srl_agents.engines import catalog
from srl_agents.engines.quiet import quiet_libraries
from srl_envs.errors import ConfigError, ModelError, UnknownPolicyError, nearest

Dtype = Literal["float32", "bfloat16"]
Example = tuple[str, str]
"""An observation and a reply to it, shown as an earlier turn of the chat."""
_BASE = "__base__"
"""PEFT's word for no adapter."""
_ANCHOR = "anchor"
"""PEFT wants one adapter at all times; this one, of rank 1, is never trained and never shown."""
_PROMPT_CACHE = 8192
"""Encoded prompts kept; games repeat their opening positions."""


def limit_threads() -> None:
    """Use one torch thread, or SRL_TORCH_THREADS of them.

    With any other load on the machine, OpenMP's spin waits make two threads many times slower
    than one.
    """
    torch.set_num_threads(int(os.environ.get("SRL_TORCH_THREADS", "1")))


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What a model reads before the observation; the same for every turn, so prefixes are shared."""

    system: str | None = None
    """System message; None leaves it to the chat template."""
    examples: tuple[Example, ...] = ()
    """(observation, reply) pairs shown as earlier turns; small models learn the reply's form here."""

    def __post_init__(self) -> None:
        if any(len(example) != 2 for example in self.examples):
            raise ConfigError("prompt.examples: each is a pair of an observation and a reply.")

    def messages(
        self, observation: str, examples: tuple[Example, ...] = ()
    ) -> list[dict[str, str]]:
        """The chat that ends with the observation; more examples follow the prompt's own."""
        chat = [] if self.system is None else [{"role": "system", "content": self.system}]
        for shown, reply in (*self.examples, *examples):
            chat += [{"role": "user", "content": shown}, {"role": "assistant", "content": reply}]
        return [*chat, {"role": "user", "content": observation}]


class BaseModel:
    """A frozen causal language model, its tokenizer and its adapters."""

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        *,
        lora_rank: int,
        lora_alpha: float,
        prompt: Prompt | None = None,
    ) -> None:
        """Take over a loaded model; `load` is the usual way in.

        Args:
            name: how the user called the model.
            model: a transformers causal language model; it is frozen and wrapped here.
            tokenizer: its tokenizer, with a chat template and a pad token.
            lora_rank: rank of every adapter.
            lora_alpha: LoRA scale; the update is multiplied by lora_alpha / lora_rank.
            prompt: what stands before every observation; nothing if absent.
        """
        self.prompt = prompt or Prompt()
        self.name = name
        self.tokenizer = tokenizer
        self.device = torch.device(model.device)
        self._config = LoraConfig(
            r=lora_rank, lora_alpha=lora_alpha, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        self.eos_token_ids = _eos_token_ids(model, tokenizer)
        # Recipes in a hub model's generation_config (top_k, penalties) would change the sampling.
        model.generation_config = GenerationConfig(pad_token_id=tokenizer.pad_token_id)
        model.requires_grad_(False)
        anchor = LoraConfig(r=1, target_modules="all-linear", task_type="CAUSAL_LM")
        with torch.random.fork_rng(devices=[]), quiet_libraries():
            self.model: Any = get_peft_model(model, anchor, adapter_name=_ANCHOR)
        self.model.eval()
        self._layers: dict[str, Any] = {
            key: module
            for key, module in self.model.named_modules()
            if isinstance(module, LoraLayer)
        }
        self.activate(None)
        specials = [re.escape(t) for t in _special_tokens(tokenizer)]
        self._specials = re.compile("|".join(specials)) if specials else None
        self._encode = lru_cache(maxsize=_PROMPT_CACHE)(self._encode_uncached)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        lora_rank: int = 8,
        lora_alpha: float = 16,
        dtype: Dtype = "float32",
        device: str = "auto",
        prompt: Prompt | None = None,
    ) -> BaseModel:
        """Load a model by catalog name, hub id or folder.

        Args:
            name_or_path: ``tiny``, ``smollm2-135m``, a hub id, or a local folder.
            lora_rank: rank of every adapter, 1 or more.
            lora_alpha: LoRA scale.
            dtype: of the frozen weights; adapters are float32 always.
            device: ``auto`` takes CUDA where there is one, else the CPU.
            prompt: what stands before every observation; nothing if absent.

        Raises:
            ConfigError: rank, dtype or device make no sense here.
            ModelError: the model cannot be fetched or loaded, or has no chat template.
        """
        if lora_rank < 1:
            raise ConfigError(f"lora_rank={lora_rank}: use 1 or more.")
        if dtype not in ("float32", "bfloat16"):
            raise ConfigError(f"dtype={dtype!r}: use 'float32' or 'bfloat16'.")
        limit_threads()
        folder = catalog.resolve(str(name_or_path))
        try:
            with quiet_libraries():
                model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
                tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{folder} does not hold a loadable model: {error}") from error
        if not tokenizer.chat_template:
            raise ModelError(f"{name_or_path} has no chat template; use an instruct model.")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        model.to(_device(device))
        return cls(
            str(name_or_path),
            model,
            tokenizer,
            lora_rank=lora_rank,
            lora_alpha=lora_alpha,
            prompt=prompt,
        )

    # Text and tokens

    def encode_prompt(
        self, observation: str, examples: tuple[Example, ...] = ()
    ) -> tuple[int, ...]:
        """Token ids of prompt and observation under the chat template, ready for the reply.

        The observation may quote other players, so text in it that spells a template token
        (``<|im_end|>``) is broken up: no player can end another's message.

        Args:
            observation: what the reply answers.
            examples: shown after those of the base's prompt; what others wrote, broken up too.
        """
        return self._encode(observation, examples)

    def _encode_uncached(self, observation: str, examples: tuple[Example, ...]) -> tuple[int, ...]:
        shown = tuple((self._broken_up(seen), self._broken_up(said)) for seen, said in examples)
        ids = self.tokenizer.apply_chat_template(
            self.prompt.messages(self._broken_up(observation), shown),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        return tuple(ids)

    def encode_reply(self, reply: str) -> tuple[int, ...]:
        """Token ids of a reply that somebody else wrote, as this model would write it.

        They end with the token that ends a reply; text that spells a template token is broken up.
        """
        ids = self.tokenizer(self._broken_up(reply), add_special_tokens=False)["input_ids"]
        return (*ids, self.tokenizer.eos_token_id)

    def _broken_up(self, text: str) -> str:
        if self._specials is None:
            return text
        return self._specials.sub(lambda m: m[0][0] + " " + m[0][1:], text)

    def decode(self, ids: tuple[int, ...] | list[int]) -> str:
        """Text of a reply, without template tokens."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    @property
    def context_length(self) -> int:
        """Longest sequence, prompt and reply together, in tokens."""
        return int(self.model.config.get_text_config().max_position_embeddings)

    # Adapters

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of all adapters, in the order in which they were added."""
        return tuple(name for name in self.model.peft_config if name != _ANCHOR)

    def add_adapter(self, name: str, seed: int) -> None:
        """Add a LoRA adapter that changes nothing yet: B is 0, A is drawn from `seed`.

        A is uniform in ±1/sqrt(inputs), as PEFT draws it, but from a generator of its own.

        Raises:
            ConfigError: the name is taken, empty or holds a dot.
        """
        self._add_empty(name)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in self._layers.values():
                weight = layer.lora_A[name].weight
                bound = 1 / math.sqrt(weight.shape[1])
                draw = torch.rand(weight.shape, generator=generator, dtype=torch.float32)
                weight.copy_((2 * draw - 1) * bound)
                layer.lora_B[name].weight.zero_()

    def _add_empty(self, name: str) -> None:
        if not name or "." in name or name == _BASE or name in self.model.peft_config:
            raise ConfigError(
                f"adapter name {name!r} is empty, holds a dot or is taken; "
                f"present are {list(self.adapters)}."
            )
        active = self._active
        # PEFT draws weights, which are replaced at once: leave the global generator alone.
        with torch.random.fork_rng(devices=[]), quiet_libraries():
            self.model.add_adapter(name, copy.deepcopy(self._config))
        self.activate(active)

    def remove_adapter(self, name: str) -> None:
        """Forget an adapter and free its memory."""
        self.require(name)
        if self._active == name:
            self.activate(None)
        active = self._active
        self.model.delete_adapter(name)
        self.activate(active)

    def activate(self, name: str | None) -> None:
        """Make `name` the one trainable adapter; None freezes everything."""
        if name is not None:
            self.require(name)
        self._active = name
        self.model.set_adapter(name or _ANCHOR)
        if name is None:
            for parameter in self._parameters(_ANCHOR).values():
                parameter.requires_grad_(False)

    @property
    def active(self) -> str | None:
        """The trainable adapter."""
        return self._active

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Inside, the model is the frozen base: all adapters are off."""
        # PEFT's own disable_adapter walks over every parameter of every adapter; this is 50
        # times cheaper, and no gradient can flow while adapters are off anyway.
        before = [layer._disable_adapters for layer in self._layers.values()]
        for layer in self._layers.values():
            layer._disable_adapters = True
        try:
            yield
        finally:
            for layer, disabled in zip(self._layers.values(), before, strict=True):
                layer._disable_adapters = disabled

    @contextmanager
    def through(self, name: str) -> Iterator[None]:
        """Inside, forwards pass through this adapter; what can be trained stays as it is."""
        self.require(name)
        before = [layer._active_adapter for layer in self._layers.values()]
        for layer in self._layers.values():
            layer._active_adapter = [name]
        try:
            yield
        finally:
            for layer, adapter in zip(self._layers.values(), before, strict=True):
                layer._active_adapter = adapter

    @contextmanager
    def mixture(self, adapters: Sequence[str | None]) -> Iterator[None]:
        """Inside, row i of a batch passes through ``adapters[i]``; for sampling, not training.

        The same as PEFT's ``adapter_names=``, a quarter faster where rows of one adapter stand
        together: it neither gathers nor scatters, and adds into the base's output in place.

        Args:
            adapters: one per row of every batch that is run inside; None is the base.
        """
        runs = []
        start = 0
        for name, rows in groupby(adapters):
            stop = start + len(list(rows))
            if name is not None:
                self.require(name)
                runs.append((name, start, stop))
            start = stop

        def add(layer: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            for name, begin, end in runs:
                down, up = layer.lora_A[name].weight, layer.lora_B[name].weight
                low = inputs[0][begin:end].reshape(-1, down.shape[1]).to(down.dtype) @ down.T
                out = output[begin:end].view(-1, up.shape[0])
                if out.dtype == up.dtype:
                    out.addmm_(low, up.T, alpha=layer.scaling[name])
                else:
                    out.add_((low @ up.T).mul_(layer.scaling[name]).to(out.dtype))

        hooks = [layer.register_forward_hook(add) for layer in self._layers.values() if runs]
        try:
            with self.reference(), torch.no_grad():
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def trainable_parameters(self, name: str) -> dict[str, torch.nn.Parameter]:
        """The adapter's own parameters by PEFT's file names, not copies."""
        self.require(name)
        return self._parameters(name)

    def _parameters(self, name: str) -> dict[str, torch.nn.Parameter]:
        return {
            f"{key}.lora_{part}.weight": getattr(layer, f"lora_{part}")[name].weight
            for key, layer in self._layers.items()
            for part in ("A", "B")
        }

    def adapter_tensors(self, name: str) -> dict[str, torch.Tensor]:
        """Copies of the adapter's tensors on the CPU, named as in PEFT's files."""
        return {
            key: parameter.detach().to("cpu", copy=True)
            for key, parameter in self.trainable_parameters(name).items()
        }

    def set_adapter_tensors(self, name: str, tensors: dict[str, torch.Tensor]) -> None:
        """Overwrite an adapter in place.

        Raises:
            ModelError: the tensors have other names or shapes than this base's adapters.
        """
        own = self.trainable_parameters(name)
        if own.keys() != tensors.keys():
            odd = sorted(own.keys() ^ tensors.keys())[:3]
            raise ModelError(f"tensors do not fit adapter {name!r} of {self.name}: {odd} differ.")
        for key, tensor in tensors.items():
            if own[key].shape != tensor.shape:
                raise ModelError(
                    f"{key}: shape {tuple(tensor.shape)} does not fit {tuple(own[key].shape)}; "
                    "was the adapter made with another lora_rank or base?"
                )
        with torch.no_grad():
            for key, tensor in tensors.items():
                own[key].copy_(tensor)

    def save_adapter(self, name: str, folder: Path) -> None:
        """Write ``adapter_model.safetensors`` and ``adapter_config.json``, loadable by PEFT."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.adapter_tensors(name), folder / "adapter_model.safetensors")
        self.model.peft_config[name].save_pretrained(str(folder))

    def load_adapter(self, name: str, folder: Path) -> None:
        """Read an adapter file into `name`, which is added when it does not exist.

        Raises:
            ModelError: the folder holds no adapter, or one of another base or rank.
        """
        path = folder / "adapter_model.safetensors"
        if not path.is_file():
            raise ModelError(f"{folder} holds no adapter_model.safetensors.")
        tensors = load_file(path)
        added = name not in self.adapters
        if added:
            self._add_empty(name)
        try:
            self.set_adapter_tensors(name, tensors)
        except ModelError:
            if added:
                self.remove_adapter(name)
            raise

    def require(self, name: str) -> None:
        """Raise UnknownPolicyError unless the adapter exists."""
        if name not in self.adapters:
            raise UnknownPolicyError(
                f"no adapter {name!r} on {self.name}.{nearest(name, self.adapters)} "
                f"Present: {list(self.adapters)}."
            )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device={name!r}: use 'auto', 'cpu' or 'cuda'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device={name!r}: this machine has no CUDA device; use 'cpu'.")
    return device


def _eos_token_ids(model: PeftModel, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a reply: the tokenizer's and those that the model declares."""
    declared = model.generation_config.eos_token_id
    ids = [] if declared is None else [declared] if isinstance(declared, int) else list(declared)
    return frozenset([tokenizer.eos_token_id, *ids])


def _special_tokens(tokenizer: Any) -> list[str]:
    """Texts that the tokenizer reads as one template token, longest first."""
    added = [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]
    return sorted((t for t in added if len(t) > 1), key=len, reverse=True)
