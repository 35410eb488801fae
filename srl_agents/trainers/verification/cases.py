"""Objectives that are verified: all that trainers have, or that of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

from srl_agents.trainers.algorithms import AlgorithmSettings
from srl_agents.trainers.dpo_settings import DPOSettings, PairLoss
from srl_agents.trainers.grpo_settings import CONSTANT_TOKENS, VARIANTS, GRPOSettings, LossType
from srl_agents.trainers.ppo_settings import CRITICS, PPOSettings
from srl_agents.trainers.verification.independent.pair_objectives import PairObjective
from srl_agents.trainers.verification.independent.row_objectives import RowObjective
from srl_envs.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class Case:
    """One objective, and its name for the reader."""

    name: str
    settings: AlgorithmSettings


def all_cases() -> list[Case]:
    """Every loss of every algorithm: published variants as they are, the others with clip, KL and entropy."""
    return [*_grpo_cases(), *_ppo_cases(), *_dpo_cases()]


def chosen_cases(names: tuple[str, ...]) -> list[Case]:
    """Cases whose name is one of these or begins with one of these words.

    Raises:
        ConfigError: a name fits none; the message lists them.
    """
    cases = all_cases()
    known = [case.name for case in cases]
    for name in names:
        if not any(_fits(own, name) for own in known):
            raise ConfigError(
                f"only={name!r} is unknown.{nearest(name, known)} Known: {', '.join(known)}."
            )
    return [case for case in cases if not names or any(_fits(case.name, n) for n in names)]


def case_of(settings: AlgorithmSettings) -> Case:
    """The case of a recipe's own settings; a saved adapter as the reference is replaced by the first weights.

    Raises:
        ConfigError: the algorithm is not one of SRL's.
    """
    if not isinstance(settings, GRPOSettings | PPOSettings | DPOSettings):
        raise ConfigError(
            f"training.algorithm={settings.algorithm!r}: only grpo, ppo and dpo have a second "
            "computation. Name a model instead of the recipe."
        )
    if settings.reference not in ("base", "start"):
        settings = replace(settings, reference="start")
    variant = getattr(settings, "variant", None) or getattr(settings, "loss_type", None)
    return Case(f"{settings.algorithm} {variant}" if variant else settings.algorithm, settings)


def row_objective(settings: GRPOSettings | PPOSettings) -> RowObjective:
    """The policy's loss of settings, in the words of the independent computation."""
    if isinstance(settings, PPOSettings):
        high = settings.clip_low if settings.clip_high is None else settings.clip_high
        return RowObjective(
            kind="dapo",
            clip_low=settings.clip_low,
            clip_high=high,
            kl_coef=settings.kl_coef,
            kl_corrected=settings.kl_correction,
            entropy_coef=settings.entropy_coef,
        )
    loss = settings.loss
    return RowObjective(
        kind=loss.loss_type,
        level=loss.ratio_level,
        clip_low=loss.clip_low,
        clip_high=loss.clip_low if loss.clip_high is None else loss.clip_high,
        kl_coef=loss.kl_coef,
        kl_corrected=loss.kl_correction,
        entropy_coef=settings.entropy_coef,
        constant_tokens=CONSTANT_TOKENS,
    )


def pair_objective(settings: DPOSettings) -> PairObjective:
    """The loss of settings, in the words of the independent computation."""
    return PairObjective(
        kind=settings.loss_type,
        coef=settings.kl_coef,
        smoothing=settings.label_smoothing,
        tail_weight=settings.tail_weight,
        offset=settings.offset,
    )


def _fits(own: str, name: str) -> bool:
    return own == name or own.startswith(f"{name} ")


def _grpo_cases() -> list[Case]:
    cases = [Case(f"grpo {name}", GRPOSettings(variant=name)) for name in VARIANTS if name]
    more: dict[str, dict[str, Any]] = {
        "kl_coef": {"kl_coef": 0.1},
        "entropy": {"entropy_coef": 0.05},
    }
    for kind in get_args(LossType):
        if f"grpo {kind}" in [case.name for case in cases]:
            continue
        settings = GRPOSettings(loss_type=kind, kl_coef=0.1, entropy_coef=0.05)
        cases.append(Case(f"grpo {kind}", settings))
    cases += [
        Case("grpo default with divergence", GRPOSettings(**more["kl_coef"], clip_high=0.4)),
        Case("grpo default from start", GRPOSettings(**more["kl_coef"], reference="start")),
        Case("grpo default with entropy", GRPOSettings(**more["entropy"])),
        Case("grpo luspo by row", GRPOSettings(loss_type="luspo", ratio_level="sequence")),
        Case(
            "grpo cispo by row",
            GRPOSettings(loss_type="cispo", ratio_level="sequence", clip_high=2.0),
        ),
    ]
    return cases


def _ppo_cases() -> list[Case]:
    return [
        Case(
            f"ppo {critic}",
            PPOSettings(
                critic=critic,  # type: ignore[arg-type]
                kl_coef=0.05,
                entropy_coef=0.02,
                clip_high=0.3,
            ),
        )
        for critic in CRITICS
    ]


def _dpo_cases() -> list[Case]:
    smoothing = {"robust": 0.1, "exo_pair": 0.05}
    cases = []
    for kind in get_args(PairLoss):
        more: dict[str, Any] = {"offset": 0.3} if kind in ("sigmoid", "hinge") else {}
        settings = DPOSettings(
            loss_type=kind,
            kl_coef=0.3,
            tail_weight=0.5,
            label_smoothing=smoothing.get(kind, 0.0),
            **more,
        )
        cases.append(Case(f"dpo {kind}", settings))
    return [*cases, Case("dpo sigmoid of whole replies", DPOSettings(reference="start"))]
