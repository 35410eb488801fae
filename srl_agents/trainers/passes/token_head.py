"""Choice of the head that scores tokens in training: ours over tiles of the vocabulary, or TRL's.

Ours reads each tile once and only the tokens that have labels. It serves a frozen head, as beside LoRA;
where the head itself learns, TRL's stays.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Literal

import torch
from trl.trainer.utils import FusedCausalLMOutput

from srl_agents.models.base_model import BaseModel
from srl_agents.trainers.passes.log_probabilities import LogitForm, token_log_probabilities
from srl_envs.errors import ConfigError

TokenHead = Literal["auto", "chunked", "trl"]
LARGE_VOCABULARY = 32_768
"""Tokens from which ``auto`` takes our head on a CPU; on a GPU TRL has a Triton kernel."""
_TOLERATED = {torch.float32: 1e-3, torch.bfloat16: 0.3}
"""Nats by which a log-probability may differ from that of the model's own logits."""


def wear_token_head(
    base: BaseModel, head: TokenHead, temperature: float, *, entropy_learns: bool
) -> None:
    """Put the head on the model in the place of TRL's, which is on it, where the setting asks for that.

    Args:
        base: whose model TRL has patched.
        head: ``auto`` takes ours where it is faster and agrees with the model.
        temperature: logits are divided by it.
        entropy_learns: whether a loss sends gradients through entropies.

    Raises:
        ConfigError: ``chunked`` on a model that it does not score as the model does itself.
    """
    config = base.model.config.get_text_config()
    if head == "trl":
        return
    wanted = base.device.type == "cpu" and config.vocab_size >= LARGE_VOCABULARY
    if head == "auto" and not (wanted and base.parameters == "lora"):
        return
    form = LogitForm(temperature, getattr(config, "final_logit_softcapping", None))
    fault = _fault(base, form)
    if fault is None:
        _wear(base.model.get_base_model(), form, entropy_learns=entropy_learns)
    elif head == "chunked":
        raise ConfigError(f"log_probabilities='chunked': {base.name} {fault}. Use 'auto' or 'trl'.")


def _wear(inner: Any, form: LogitForm, *, entropy_learns: bool) -> None:
    plain = functools.partial(type(inner).forward, inner)

    @functools.wraps(type(inner).forward)  # `generate` looks at the signature
    def forward(
        self: Any,
        *args: Any,
        fused_lm_head: bool = False,
        labels: torch.Tensor | None = None,
        shift_labels: torch.Tensor | None = None,
        **others: Any,
    ) -> Any:
        if not fused_lm_head:
            given = {"labels": labels, "shift_labels": shift_labels}
            return plain(*args, **others, **{k: v for k, v in given.items() if v is not None})
        others.pop("num_items_in_batch", None)
        hidden = self.base_model(*args, **(others | {"use_cache": False})).last_hidden_state
        if shift_labels is None:
            if labels is None:
                raise TypeError("fused_lm_head needs labels or shift_labels.")
            hidden, shift_labels = hidden[:, :-1], labels[:, 1:]
        mask = shift_labels != -100
        out = self.get_output_embeddings()
        logps, entropies = token_log_probabilities(
            hidden[mask].to(out.weight.dtype),
            out.weight,
            shift_labels[mask],
            form,
            bias=out.bias,
            entropy_gradient=entropy_learns and torch.is_grad_enabled(),
        )
        blank = logps.new_zeros(mask.shape)
        return FusedCausalLMOutput(
            log_probs=blank.masked_scatter(mask, logps),
            entropy=blank.masked_scatter(mask, entropies),
            label_mask=mask,
        )

    inner.forward = types.MethodType(forward, inner)


@torch.no_grad()
def _fault(base: BaseModel, form: LogitForm) -> str | None:
    """Why our head cannot score for this model, tried on a few tokens; None if it can."""
    inner = base.model.get_base_model()
    out = inner.get_output_embeddings()
    if (
        not isinstance(out, torch.nn.Linear)
        or out.weight.requires_grad
        or base.parameters != "lora"
    ):
        return "has an output head that learns, or that is not a plain linear layer"
    if getattr(base.model.config.get_text_config(), "output_router_logits", False):
        return "balances its routers"
    ids = torch.arange(1, 9, device=base.device)[None] % out.weight.shape[0]
    with base.reference():
        logits = type(inner).forward(inner, input_ids=ids, use_cache=False).logits[0, :-1].float()
        hidden = inner.base_model(input_ids=ids, use_cache=False).last_hidden_state[0, :-1]
    own, _ = token_log_probabilities(hidden, out.weight, ids[0, 1:], form, bias=out.bias)
    expected = (logits / form.temperature).log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    missed = float((own - expected).abs().max())
    if missed <= _TOLERATED.get(base.model.dtype, 0.3):
        return None
    return f"scales or shifts its logits: log-probabilities differ by {missed:.2g}"
