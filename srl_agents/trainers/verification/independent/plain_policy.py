"""A transformers model with LoRA factors added by hooks, which reads one row at a time.

A row by itself needs no padding, no packing and no mask, so no layout can hide a mistake here.
Source of the factors' place: arXiv:2106.09685 section 4.1, output + alpha / rank * B A input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

Factors = Mapping[str, tuple[torch.Tensor, torch.Tensor]]
"""Layer, by the model's own name -> A (rank, inputs) and B (outputs, rank)."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Results of reading one row."""

    logps_T: torch.Tensor
    """Log-probability of each reply token, in float64."""
    entropies_T: torch.Tensor
    """Entropy of the distribution that each reply token was drawn from, in float64."""
    hidden_TH: torch.Tensor
    """Last hidden state before each reply token."""


class PlainPolicy:
    """One model, frozen, without dropout."""

    def __init__(self, model: Any, acted: int | None = None) -> None:
        """Freeze a transformers causal language model.

        Args:
            model: any; it is changed by hooks while `adapted` is open.
            acted: last tokens of each prompt on which adapters act, as on the reply; None: on all.
        """
        self._model = model.eval().requires_grad_(False)
        self._acted = acted
        self._first_acted = 0

    @classmethod
    def load(cls, folder: Path, acted: int | None = None) -> PlainPolicy:
        """Read a model's folder in float32 on the CPU."""
        return cls(
            AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False
            ),
            acted,
        )

    @contextmanager
    def adapted(self, factors: Factors, scale: float) -> Iterator[None]:
        """Inside, every named layer adds ``scale`` * B A input to its output.

        Args:
            factors: of an adapter.
            scale: alpha / rank.
        """
        hooks = [
            self._model.get_submodule(layer).register_forward_hook(self._adding(*pair, scale))
            for layer, pair in factors.items()
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def read(self, prompt: list[int], reply: list[int], temperature: float) -> Scores:
        """Score a reply to a prompt.

        Args:
            prompt: tokens, at least one.
            reply: tokens, at least one.
            temperature: logits are divided by it.
        """
        self._first_acted = 0 if self._acted is None else len(prompt) - self._acted
        ids_1L = torch.tensor([[*prompt, *reply]], device=self._model.device)
        output = self._model(input_ids=ids_1L, use_cache=False, output_hidden_states=True)
        before = slice(len(prompt) - 1, -1)  # the place before a token predicts it
        logps_TV = (output.logits[0, before].double() / temperature).log_softmax(-1)
        return Scores(
            logps_T=logps_TV.gather(1, ids_1L[0, len(prompt) :, None])[:, 0],
            entropies_T=-(logps_TV.exp() * logps_TV).sum(-1),
            hidden_TH=output.hidden_states[-1][0, before],
        )

    def _adding(self, down: torch.Tensor, up: torch.Tensor, scale: float) -> Any:
        def add(
            _layer: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
        ) -> torch.Tensor:
            added = scale * (inputs[0] @ down.T @ up.T)
            if self._first_acted:
                acts = torch.arange(added.shape[-2]) >= self._first_acted
                added = added * acts[:, None]
            return output + added

        return add
