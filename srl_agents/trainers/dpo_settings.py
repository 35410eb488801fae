"""Settings of DPO: frozen data, checked when made, without importing TRL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from srl_agents.credit.preferences import ComparisonSettings
from srl_agents.trainers.algorithms import (
    AlgorithmSettings,
    Plan,
    ReferenceSettings,
    check_group_size,
)
from srl_agents.trainers.update_settings import (
    ROUTER_LOSS,
    check_not_negative,
    check_one_of,
    check_positive,
)
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import with_defaults

if TYPE_CHECKING:
    from srl_agents.credit.by_game import Credit
    from srl_agents.models.base_model import BaseModel
    from srl_agents.trainers.experience import Experience, Teachers
    from srl_agents.trainers.learner import AdapterLearner

PairLoss = Literal[
    "sigmoid", "sigmoid_norm", "hinge", "ipo", "robust", "exo_pair", "nca_pair", "bco_pair",
    "sppo_hard", "apo_zero", "apo_down", "discopop",
]  # fmt: skip
"""TRL's losses that are means over pairs. Its ``aot`` losses sort the pairs of a micro-batch, and
``sft`` looks at no rejected reply: neither is here."""

_OF_DIFFERENCES = ("sigmoid", "hinge", "robust", "exo_pair", "discopop")
"""Losses of kl_coef times the difference of both log-ratios; an offset means the same in all."""


@dataclass(frozen=True, kw_only=True, slots=True)
@with_defaults(kl_coef=0.1)
class DPOSettings(ReferenceSettings, ComparisonSettings):
    """Updates on pairs of replies. Names are ours; `to_trl` translates them.

    Source: arXiv:2305.18290 equation 7; pairs are sampled by the learners of this very update, as in
    arXiv:2402.04792.
    """

    learns_rows: ClassVar[bool] = False

    algorithm: Literal["dpo"] = "dpo"
    loss_type: PairLoss = "sigmoid"
    """``sigmoid`` is DPO's; ``sigmoid_norm`` and ``ipo`` divide log-ratios by the reply's tokens."""
    label_smoothing: float = 0.0
    """Only robust and exo_pair: how often a pair is thought to be the wrong way round."""
    tail_weight: float = 1.0
    """Of log-probabilities behind the length of the shorter reply of a pair, in [0, 1]; below 1
    length counts less. Source: alpha of arXiv:2409.06411."""
    offset: float = 0.0
    """Times a pair's margin: by how much the chosen reply's implicit reward must exceed the other's.
    Source: arXiv:2402.10571, with margins of return."""

    def __post_init__(self) -> None:
        AlgorithmSettings.__post_init__(self)
        check_positive(self, "kl_coef")
        check_not_negative(self, "offset")
        check_one_of("loss_type", self.loss_type, get_args(PairLoss))
        if not 0 <= self.label_smoothing < 0.5:
            raise ConfigError(f"label_smoothing={self.label_smoothing}: use 0 to below 0.5.")
        if self.loss_type == "exo_pair" and not self.label_smoothing:
            raise ConfigError("loss_type='exo_pair' needs label_smoothing above 0, such as 1e-3.")
        if self.label_smoothing and self.loss_type not in ("robust", "exo_pair"):
            raise ConfigError(
                f"label_smoothing={self.label_smoothing}: loss_type {self.loss_type!r} does not use it; "
                "use 'robust' or 'exo_pair'."
            )
        if not 0 <= self.tail_weight <= 1:
            raise ConfigError(f"tail_weight={self.tail_weight}: use 0 to 1.")
        if self.offset and self.loss_type not in _OF_DIFFERENCES:
            raise ConfigError(
                f"offset={self.offset}: loss_type {self.loss_type!r} is not of a difference of "
                f"rewards; use one of {', '.join(_OF_DIFFERENCES)}, or 0."
            )

    def to_trl(self, output_dir: Path, *, seed: int, cpu: bool) -> Any:
        """TRL's `DPOConfig`; pairs come with log-probabilities of the reference that we compute."""
        from trl import DPOConfig  # noqa: PLC0415 - seconds; recipes must fail in the first one

        return DPOConfig(
            **self.arguments(output_dir, seed=seed, cpu=cpu),
            **ROUTER_LOSS,
            beta=self.kl_coef,
            loss_type=[self.loss_type],
            label_smoothing=self.label_smoothing,
            ld_alpha=None if self.tail_weight == 1 else self.tail_weight,
            max_length=None,
        )

    def make_learner(
        self, name: str, base: BaseModel, *, temperature: float, seed: int
    ) -> AdapterLearner[Any]:
        """See `AlgorithmSettings`; the temperature makes no difference to pairs."""
        from srl_agents.trainers.dpo import DPOLearner  # noqa: PLC0415 - torch and TRL: seconds

        return DPOLearner(name, base, self, temperature, seed)

    def make_experience(
        self,
        learners: Mapping[str, Any],
        credit: Credit,
        teachers: Teachers,
    ) -> Experience:
        """See `AlgorithmSettings`; a teacher has no say in pairs."""
        from srl_agents.trainers.dpo import PreferencePairs  # noqa: PLC0415 - as above

        return PreferencePairs(learners, credit)

    def check(self, plan: Plan) -> None:
        """See `AlgorithmSettings`; a pair has no place for weights of tokens or sizes of advantages."""
        AlgorithmSettings.check(self, plan)
        check_group_size(plan)
        if plan.teacher or plan.credit.importance_cap is not None:
            raise ConfigError(
                "algorithm 'dpo' learns from pairs: a coordination kind with a teacher, such as "
                "'distillation', and credit.importance_cap weigh tokens, for 'grpo' and 'ppo'."
            )
        if plan.thoughts:
            raise ConfigError(
                "algorithm 'dpo' learns whole completions, and in thoughts some tokens are the engine's: "
                "leave out prompt.thoughts, or use 'grpo' or 'ppo'."
            )
        if plan.scale_advantages or plan.credit.normalise != "none":
            raise ConfigError(
                "algorithm 'dpo' learns which reply of a pair was worth more, not by how much: leave "
                "out scale_advantages and credit.normalise."
            )
