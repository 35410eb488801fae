"""Attention windows of a model's layers, and a check that it reads shared prefixes as separate rows.

A layout of shared prefixes brings its own attention mask, so it must cut what a sliding window hides.
Layers that pass a state from token to token cannot be masked: a model with such layers is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.trainers.passes.shared_prefixes import SharedPrefixes, share_prefixes
from srl_agents.trainers.prefix_sharing import (
    MASKED_LAYERS,
    ShareSetting,
    Sharing,
    prefix_sharing,
)
from srl_envs.errors import ConfigError

_TOLERATED = 0.05
"""Relative error of hidden states that rounding may explain, in bfloat16 too."""
_LONGEST_PROBE = 64
_INSTEAD = "Set share_prefixes to false."
_TRIED: WeakKeyDictionary[BaseModel, AttentionReach | ConfigError] = WeakKeyDictionary()
"""Results of `attention_reach`: learners of one base ask once."""


class LayerMasks(dict[str, torch.Tensor]):
    """(G, 1, L, L) masks by type of layer, as transformers reads them where layers differ."""

    def sum(self) -> torch.Tensor:
        """Zero in place of TRL's count of tokens, which is never read."""
        return torch.zeros(())


@dataclass(frozen=True, slots=True)
class AttentionReach:
    """The windows of a model's layers."""

    windows: dict[str, int | None]
    """Type of layer to the tokens that one of its tokens sees, itself included; None: all."""

    def inputs(self, layout: SharedPrefixes, dtype: torch.dtype) -> dict[str, Any]:
        """What the model reads of a layout; its type is that of attention scores."""
        masks = LayerMasks(
            (kind, layout.attention_mask(dtype, window)) for kind, window in self.windows.items()
        )
        (first, *others) = masks.values()
        return {
            "input_ids": layout.input_ids_GL,
            "position_ids": layout.position_ids_GL,
            "attention_mask": masks if others else first,
        }


def sharing_of(
    base: BaseModel, setting: ShareSetting, *, packs: bool = False
) -> tuple[Sharing, AttentionReach | None]:
    """Decision for a loaded model, and the windows of its layers where rows share.

    Args:
        base: owner of the model.
        setting: ``auto`` shares where the model can.
        packs: whether rows are packed into one sequence without padding.

    Raises:
        ConfigError: rows should share by the setting, and the model cannot; the message gives the cause.
    """
    config = base.model.config.get_text_config()
    sharing = prefix_sharing(
        setting,
        attention=getattr(config, "_attn_implementation", None) or "auto",
        layers=getattr(config, "layer_types", None) or (),
        packs=packs,
    )
    if not sharing.shares:
        return sharing, None
    try:
        return sharing, attention_reach(base)
    except ConfigError as error:
        if setting != "auto":
            raise
        cause = str(error).removeprefix("share_prefixes: ").removesuffix(f" {_INSTEAD}")
        return Sharing(False, f"auto: {cause.rstrip('.')}"), None


def attention_reach(base: BaseModel) -> AttentionReach:
    """The windows of a base's layers, tried once on a few tokens.

    Raises:
        ConfigError: the model cannot read shared prefixes; the message gives the cause.
    """
    if base not in _TRIED:
        try:
            _TRIED[base] = _tried(base)
        except ConfigError as error:
            _TRIED[base] = error
    reach = _TRIED[base]
    if isinstance(reach, ConfigError):
        raise reach
    return reach


def _tried(base: BaseModel) -> AttentionReach:
    config = base.model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        reach = AttentionReach({"sliding_attention" if window else "full_attention": window})
    else:
        unread = sorted(set(kinds) - set(MASKED_LAYERS))
        if unread:
            raise ConfigError(
                f"share_prefixes: {base.name} ({config.model_type}) has layers of type "
                f"{', '.join(unread)}, which take no mask of the tokens of a row. {_INSTEAD}"
            )
        windows = {
            kind: window if kind == MASKED_LAYERS[1] else None for kind in sorted(set(kinds))
        }
        reach = AttentionReach(windows)
    check_reach(base, reach)
    return reach


def check_reach(base: BaseModel, reach: AttentionReach) -> None:
    """Compare a layout of three rows, longer than short windows, with the separate rows.

    Raises:
        ConfigError: hidden states differ by more than rounding.
    """
    config = base.model.config.get_text_config()
    windows = [*reach.windows.values(), getattr(config, "sliding_window", None)]
    longest = max(window or 0 for window in windows)
    rng = np.random.default_rng(0)
    common = rng.integers(0, config.vocab_size, size=min(longest, _LONGEST_PROBE) + 6)
    prompts = [np.concatenate([common, rng.integers(0, config.vocab_size, size=2)]) for _ in "123"]
    replies = [rng.integers(0, config.vocab_size, size=4) for _ in "123"]
    layout = share_prefixes(prompts, replies, width=10**9, device=base.device)
    backbone = base.model.get_base_model().base_model
    training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad():
            inputs = reach.inputs(layout, backbone.dtype)
            with base.acting(layout.acted_GL):
                shared = layout.rows(backbone(**inputs, use_cache=False).last_hidden_state).float()
            rows = np.stack([np.concatenate(row) for row in zip(prompts, replies, strict=True)])
            ids = torch.from_numpy(rows).to(base.device)
            plain = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            with base.acting(torch.ones_like(ids, dtype=torch.bool)):
                separate = backbone(**plain, use_cache=False).last_hidden_state[:, -5:-1].float()
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ConfigError(
            f"share_prefixes: {base.name} ({config.model_type}) cannot read an attention mask per token: "
            f"{error}. {_INSTEAD}"
        ) from error
    finally:
        backbone.train(training)
    difference = float((shared - separate).norm() / separate.norm())
    if not difference <= _TOLERATED:
        kinds = ", ".join(
            f"{kind} over {window}" for kind, window in reach.windows.items() if window
        )
        raise ConfigError(
            f"share_prefixes: {base.name} ({config.model_type}{', ' + kinds if kinds else ''}) reads "
            f"shared prefixes otherwise than rows: hidden states differ by {difference:.0%}. {_INSTEAD}"
        )
