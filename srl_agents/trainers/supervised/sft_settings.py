"""Settings of imitation: frozen data, checked when made, without importing TRL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from srl_agents.trainers.update_settings import (
    ROUTER_LOSS,
    PrefixSettings,
    UpdateSettings,
    check_one_of,
    check_positive,
    check_share_prefixes,
)
from srl_envs.reading.settings import with_defaults


@dataclass(frozen=True, kw_only=True, slots=True)
@with_defaults(learning_rate=1e-3)
class SFTSettings(UpdateSettings, PrefixSettings):
    """Updates on replies that others wrote. Names are ours; `to_trl` translates them."""

    batch_rows: int = 32
    """Replies per optimizer step."""
    loss_type: Literal["nll", "dft"] = "nll"
    """``nll`` is maximum likelihood; ``dft`` weighs each token by its own probability, so that what
    the learner finds impossible moves it less (arXiv:2508.05629)."""

    def __post_init__(self) -> None:
        UpdateSettings.__post_init__(self)
        check_positive(self, "batch_rows")
        check_one_of("loss_type", self.loss_type, ("nll", "dft"))
        check_share_prefixes(self.share_prefixes)

    def to_trl(self, output_dir: Path, *, seed: int, cpu: bool) -> Any:
        """TRL's `SFTConfig`; rows come as tokens with labels, so nothing is left to prepare."""
        from trl import SFTConfig  # noqa: PLC0415 - seconds; recipes must fail in the first one

        return SFTConfig(
            **self.arguments(output_dir, seed=seed, cpu=cpu),
            **ROUTER_LOSS,
            loss_type=self.loss_type,
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
        )
