"""Loading of a model from a folder: its type, its attention, and 4-bit weights."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from accelerate import init_empty_weights
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import BitsAndBytesConfig, GenerationConfig

from srl_agents.models import pretrained
from srl_agents.models.float32_islands import Island, keep_in_float32
from srl_agents.models.installed import require_installed
from srl_agents.models.load_bar import shown
from srl_agents.models.memory.available import memory_limit
from srl_agents.models.quiet import quiet_libraries
from srl_envs.errors import ConfigError, ModelError

Dtype = Literal["auto", "float32", "bfloat16"]
Quantization = Literal["none", "nf4"]
Attention = Literal["auto", "sdpa", "eager", "flash_attention_2"]
LARGE = 1_000_000_000
"""Parameters above which ``dtype: auto`` is bfloat16."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadingForm:
    """Number format of a base's frozen weights."""

    dtype: Dtype = "auto"
    """``auto``: bfloat16 above 1e9 parameters, else float32."""
    quantization: Quantization = "none"
    """``nf4``: linear layers in 4 bits, computed in ``dtype``."""
    attention: Attention = "auto"
    """``auto`` is transformers' choice for the model, which is sdpa where it has it."""
    float32_islands: tuple[Island, ...] = ()
    """Parts that stay float32 in a base of another type."""

    def __post_init__(self) -> None:
        for name, kind in (
            ("dtype", Dtype),
            ("quantization", Quantization),
            ("attention", Attention),
        ):
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise ConfigError(f"{name}={value!r}: use one of {', '.join(known)}.")


def load_model(folder: Path, form: LoadingForm, device: torch.device, *, whole: bool) -> Any:
    """A transformers causal language model on its device.

    Args:
        folder: holds configuration and weights.
        form: of the weights.
        device: where they go.
        whole: all of the weights learn, which they do only in float32.

    Raises:
        ConfigError: an attention or a quantization that is not installed or cannot work here.
        ModelError: the folder holds no model that can be loaded.
        MemoryLimitError: it does not fit into memory.
    """
    more = _attention(form.attention, device)
    try:
        dtype = _dtype(folder, form.dtype, whole=whole)
        if form.float32_islands and dtype == torch.float32:
            raise ConfigError(
                "memory.float32_islands: all of this base is float32. Leave them out, or set dtype to "
                "bfloat16."
            )
        if form.quantization == "nf4":
            more |= _four_bits(dtype, device)
        less = "the size of the model, set dtype to bfloat16, or quantization to nf4"
        doing = f"loading {folder} on {device}"
        with quiet_libraries(), shown(doing), memory_limit(doing, less):
            model = pretrained.causal_model(folder, dtype=dtype, **more)
            if form.quantization != "nf4":
                model = model.to(device)
            keep_in_float32(model, form.float32_islands)
    except ConfigError:
        raise
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder} does not hold a loadable model: {error}") from error
    if form.quantization == "nf4":
        _keep_layout(model)
    return model


def allow_tf32(allowed: bool) -> None:
    """Whether products of float32 matrices on GPUs round what they read to TensorFloat32, in this process.

    Source: 10 bits of mantissa instead of 23, sums in float32; NVIDIA A100 white paper.
    """
    torch.backends.cuda.matmul.allow_tf32 = allowed


def map_model(folder: Path, form: LoadingForm, weights: Path) -> Any:
    """The model of a folder around weights that another process shares: a model on the CPU without a copy.

    Args:
        folder: has the configuration.
        form: its attention; the type is that of the weights.
        weights: file that `srl_agents.models.shared_base.share_weights` wrote.

    Returns:
        A transformers causal language model whose parameters are the file's pages.

    Raises:
        ConfigError: an attention that is not installed.
        ModelError: the file is gone, or holds weights of another model.
    """
    more = _attention(form.attention, torch.device("cpu"))
    try:
        tensors = load_file(weights)
        with quiet_libraries(), init_empty_weights(include_buffers=False):
            dtype = next(iter(tensors.values())).dtype
            model = pretrained.empty_model(folder, dtype=dtype, **more)
        model.load_state_dict(tensors, strict=False, assign=True)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"{weights} holds no weights of {folder}: {error}") from error
    model.tie_weights()
    empty = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    if empty:
        raise ModelError(f"{weights} holds no {empty[0]}, which {folder} has.")
    with suppress(OSError):  # a model that has none keeps that of its configuration
        model.generation_config = GenerationConfig.from_pretrained(folder)
    return model.eval()


def parameters_of(folder: Path) -> int:
    """Parameters of the model that a folder's configuration describes, tied ones once."""
    with quiet_libraries(), torch.device("meta"):
        model = pretrained.empty_model(folder)
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def _dtype(folder: Path, wanted: Dtype, *, whole: bool) -> torch.dtype:
    if wanted == "auto":
        large = not whole and parameters_of(folder) > LARGE
        return torch.bfloat16 if large else torch.float32
    return torch.bfloat16 if wanted == "bfloat16" else torch.float32


def _attention(wanted: Attention, device: torch.device) -> dict[str, Any]:
    """Arguments of ``from_pretrained``.

    Raises:
        ConfigError: flash attention is not installed, or the machine has no GPU for it.
    """
    if wanted == "auto":
        return {}
    require_installed(attention=wanted)
    if wanted == "flash_attention_2" and device.type != "cuda":
        raise ConfigError(
            f"attention='flash_attention_2' runs on a GPU, not on {device}: use 'sdpa'."
        )
    return {"attn_implementation": wanted}


def _four_bits(dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for NormalFloat with quantized constants.

    Source: arXiv:2305.14314 section 3.

    Raises:
        ConfigError: bitsandbytes is not installed.
    """
    require_installed(quantization="nf4")
    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": settings, "device_map": {"": str(device)}}


def _keep_layout(model: Any) -> None:
    """Let no layer pack its weights for a CPU's bfloat16 products.

    bitsandbytes does so, in place, when a layer first passes tokens on without a gradient; the packed
    product has no derivative, and gradients that pass it later are wrong without a word.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
