"""Bytes of single parts of a run: weights, gradients, optimizer states, saved activations, logits, keys
and values.

Each formula counts the tensors that torch, transformers and PEFT keep; tests compare it with them. Saved
activations were read off `torch.autograd.graph.saved_tensors_hooks`: tests/srl_agents/memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from srl_agents.memory.architecture import Architecture, Shape, Targets
from srl_agents.memory.description import Attention, BaseType, Description
from srl_envs.errors import ConfigError

BYTES = {"float32": 4.0, "bfloat16": 2.0}
NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Per weight: 4 bits, one scale of 8 bits per 64 weights, one of 32 bits per 256 scales.
Source: arXiv:2305.14314 section 3, double quantisation (0.5 + 0.127 / 8 bytes)."""
SMALL_TENSOR = 4096
"""Entries below which bitsandbytes keeps states in 32 bits (``min_8bit_size`` of its optimizers)."""
BLOCK = 256
"""Entries per scale of an 8-bit state (bitsandbytes, blockwise)."""
STATES_32 = {
    "adamw_torch": 2, "adamw_torch_fused": 2, "sgd": 0,
    "adamw_8bit": 2, "paged_adamw_8bit": 2, "lion_8bit": 1, "paged_lion_8bit": 1, "ademamix_8bit": 3,
}  # fmt: skip
"""States per weight, by transformers' name of the optimizer: moments; three for AdEMAMix."""
TILE_ROWS, TILE_COLUMNS = 4096, 32768
"""Of one tile of logits in TRL's fused head (TRL 1.16, trl.kernels.chunked_logprob)."""
CHUNKED_TILE_BYTES = {True: 128 * 2**20, False: 8 * 2**20}
"""Of one float32 tile of logits of `srl_agents.trainers.passes.log_probabilities`, on an accelerator or
not."""


def base_bytes(model: Architecture, base_type: BaseType) -> float:
    """The frozen weights. In 4 bits only the blocks' linear layers are; the rest is bfloat16."""
    if base_type != "nf4":
        return model.parameters * BYTES[base_type]
    packed = model.linear_parameters
    return packed * NF4_BYTES + (model.parameters - packed) * BYTES["bfloat16"]


def layer_bytes(model: Architecture, base_type: BaseType) -> float:
    """One block of a base that processes divide, which is not in 4 bits."""
    return model.layer_parameters * BYTES[base_type]


def island_bytes(model: Architecture, base_type: BaseType, islands: Iterable[str]) -> float:
    """What parts in float32 take beyond the base's type; a head that was the embedding is one more tensor."""
    if base_type == "float32":
        return 0.0
    more = 0.0
    if "head" in islands:
        more += (4.0 if model.tied else 2.0) * model.vocabulary * model.hidden
    if "norms" in islands:
        names = ("norm", "q_norm", "k_norm")
        more += 2.0 * count(one for one in model.tensors() if one[0] in names)
    return more


def trained_tensors(
    model: Architecture, parameters: str, rank: int, targets: Targets
) -> list[tuple[str, Shape, int]]:
    """(name, shape, how many) of what one learner owns."""
    if parameters == "full":
        return list(model.tensors())
    return list(model.lora_tensors(rank, targets))


def count(tensors: Iterable[tuple[str, Shape, int]]) -> int:
    """Entries of tensors."""
    return sum(math.prod(shape) * many for _, shape, many in tensors)


def optimizer_bytes(tensors: Iterable[tuple[str, Shape, int]], optimizer: str) -> float:
    """States of one learner's optimizer.

    8-bit kinds keep tensors below `SMALL_TENSOR` entries in 32 bits, and embeddings too, because
    transformers asks bitsandbytes for that.

    Raises:
        ConfigError: the optimizer is not known.
    """
    if optimizer == "adafactor":  # one row and one column of sums for a matrix (arXiv:1804.04235)
        return sum(
            4.0 * many * (sum(shape) if len(shape) > 1 else shape[0]) for _, shape, many in tensors
        )
    if optimizer not in STATES_32:
        raise ConfigError(f"optimizer={optimizer!r} cannot be planned.")
    states, total = STATES_32[optimizer], 0.0
    for name, shape, many in tensors:
        entries = math.prod(shape)
        eight = optimizer.endswith("_8bit") and entries >= SMALL_TENSOR and name != "embed_tokens"
        each = (
            states * (entries + 4.0 * math.ceil(entries / BLOCK))
            if eight
            else 4.0 * states * entries
        )
        total += many * each
    return total


def saved_bytes_per_layer(plan: Description, tokens_per_row: int) -> float:
    """Activations that one block keeps for the backward pass, per token.

    With LoRA, PEFT casts a layer's input to float32 for its factors, once per layer; without a cast the
    layers that read the same input share it. Norms keep their input in float32.
    """
    m, b = plan.model, _compute_bytes(plan)
    layers = m.linear() if plan.targets == "all-linear" else plan.targets
    norms = 4.0 * (2 * m.hidden + 2)
    if m.head_norms:
        norms += 4.0 * (m.query + m.keys + m.heads + m.kv_heads)
    feed_forward = b * 3 * m.intermediate
    attention = _attention_bytes(m, b, tokens_per_row, plan.attention)
    if plan.parameters == "full":
        norms += 4.0 * 2 * m.hidden + (4.0 * (m.query + m.keys) if m.head_norms else 0.0)
        inputs = b * (2 * m.hidden + m.intermediate)
        return norms + feed_forward + attention + inputs
    width = {name: shape[1] for name, shape in m.linear().items()}
    if (
        plan.base_type == "float32" and not plan.autocast
    ):  # no cast: one input for those that share it
        groups = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("down_proj",))
        inputs = sum(b * width[g[0]] for g in groups if any(n in layers for n in g))
    else:
        each = b if plan.autocast else 4.0
        inputs = sum(each * width[name] for name in layers)
    return (
        norms
        + feed_forward
        + attention
        + inputs
        + (b if plan.autocast else 4.0) * plan.rank * len(layers)
    )


def _compute_bytes(plan: Description) -> float:
    return 4.0 if plan.base_type == "float32" and not plan.autocast else 2.0


def _attention_bytes(m: Architecture, b: float, tokens: int, attention: Attention) -> float:
    """Queries, keys, values and output per token; keys and values are repeated for every query head."""
    if attention == "flash":  # grouped heads stay grouped; no mask is stored (arXiv:2307.08691)
        return b * (2 * m.query + 2 * m.keys) + 4.0 * m.heads
    own = b * 4 * m.query
    if attention == "sdpa":  # the sums of each head's row, and the mask in the type of the queries
        return own + 4.0 * m.heads + b * tokens
    return own + m.heads * tokens * (
        4.0 + 2 * b
    )  # eager: softmax in float32, its cast, after dropout


def autocast_copy_bytes(plan: Description) -> float:
    """bfloat16 copies of float32 weights that autocast makes and backward passes keep."""
    return (
        2.0 * plan.model.linear_parameters if plan.autocast and plan.base_type == "float32" else 0.0
    )


def backward_bytes_per_token(plan: Description) -> float:
    """Largest set of gradients that exist beside saved activations: those of one feed-forward part.

    Its gradients of product, gate and activation in the type of the pass; with LoRA over bfloat16 the
    gradient of a cast input in float32 too.
    """
    m, b = plan.model, _compute_bytes(plan)
    casts = 4.0 if b == 2.0 and plan.parameters == "lora" and not plan.autocast else 0.0
    return m.intermediate * (3 * b + casts) + 2 * b * m.hidden


def forward_bytes_per_token(plan: Description) -> float:
    """Largest set of activations of one block in a pass without gradients."""
    m, b = plan.model, _compute_bytes(plan)
    casts = 4.0 if b == 2.0 else 0.0
    return m.intermediate * (3 * b + casts) + 2 * (4.0 + b) * m.hidden


def head_bytes(plan: Description, rows: int, accelerator: bool, *, learns: bool) -> float:
    """Peak bytes of scoring tokens, by the head that scores them."""
    m, traffic = plan.model, plan.traffic
    labelled = rows * traffic.reply_tokens
    if plan.head == "logits":  # logits, their float32 form, log-softmax and its gradient
        return plan.pass_tokens * m.vocabulary * (2.0 * 4 + (4.0 if learns else 0.0))
    if plan.head == "chunked":
        sums = 2 * 4.0 * min(labelled, 512) * m.hidden + (
            4.0 * labelled * m.hidden if learns else 0.0
        )
        return 2.5 * CHUNKED_TILE_BYTES[accelerator] + sums
    # TRL's: Triton scores only labelled tokens and folds a tile in place. In torch every token is
    # scored, and
    # a tile is copied: six times in float32 and once as booleans in the backward pass, read off its
    # allocations, four times in the forward pass.
    tokens = labelled if accelerator else plan.pass_tokens
    b, columns = _compute_bytes(plan), min(m.vocabulary, TILE_COLUMNS)
    tile = min(tokens, TILE_ROWS) * columns
    copies = 0.0 if accelerator else 4.0 * (6 if learns else 4) + 1.0
    hidden = (4.0 + b) * tokens * m.hidden
    weight = 4.0 * m.vocabulary * m.hidden if learns and plan.parameters == "full" else 0.0
    return tile * (b + copies) + hidden + weight


def kv_bytes_per_token(model: Architecture, base_type: BaseType) -> float:
    """Keys and values of one token in all layers."""
    return 2.0 * model.layers * model.keys * (4.0 if base_type == "float32" else 2.0)


def kept_bytes_per_token(model: Architecture, base_type: BaseType, *, eight_bits: bool) -> float:
    """The same while no reply reads them; in 8 bits there is a float32 scale per head."""
    if not eight_bits:
        return kv_bytes_per_token(model, base_type)
    return 2.0 * model.layers * model.kv_heads * (model.head_size + 4.0)
