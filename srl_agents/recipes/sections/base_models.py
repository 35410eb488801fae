"""The bases of a recipe: one that its own settings describe, or several, each in a section of `models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal

from srl_agents.agents.prompt_file import PromptSettings
from srl_agents.agents.resolver import require_model
from srl_agents.engines.settings import ENGINE, EngineSettings, TransformersSettings
from srl_agents.league.curricula import CURRICULUM, CurriculumSettings, FixedShares
from srl_agents.league.settings import require, require_weight
from srl_agents.memory.placements import Placement, PlacementFacts
from srl_agents.recipes.sections import other_names
from srl_agents.trainers.algorithms import TRAINING, AlgorithmSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.update_settings import RankSettings
from srl_agents.transports.settings import DRIVER
from srl_envs.errors import ConfigError
from srl_envs.reading.recovery import STAND_IN
from srl_envs.reading.settings import Removed, absent_unless_given, describe

Parameters = Literal["lora", "full"]
DType = Literal["auto", "float32", "bfloat16"]
Quantization = Literal["none", "nf4"]
Attention = Literal["auto", "sdpa", "eager", "flash_attention_2"]
FROZEN_IN_MEMORY = 2
"""Most frozen versions of whole weights that are in memory at once; the others wait on disk."""
RESERVED = ("anchor", "default", "base")
"""Adapter names that the engine or PEFT keep for themselves."""
NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
"""Names of learners in a recipe that gives only their number."""
NAME = "letters, digits, '-', '_' and '.', at most 100, and begin with a letter"
"""What `is_name` accepts, for messages."""


def is_name(text: str) -> bool:
    """Whether a run, a base or a game may be called so: it becomes a folder."""
    plain = text.replace("-", "_").replace(".", "_")
    return len(text) <= 100 and text[0:1] not in ("-", ".") and plain.isidentifier()


class Named:
    """Reads learners that are named, or counted."""

    def convert(self, value: Any, place: str) -> tuple[str, ...]:
        """Their names.

        Raises:
            ConfigError: no learners, more than there are names, or values that are not texts.
        """
        if isinstance(value, int) and not isinstance(value, bool):
            require(
                1 <= value <= len(NAMES), f"{place}: {value}: use 1 to {len(NAMES)}, or name them."
            )
            return NAMES[:value]
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ConfigError(
                f"{place}: expected a list of names or a whole number, found {describe(value)}."
            )
        require(bool(value), f"{place}: name at least one.")
        return tuple(value)


NAMED = Named()


@dataclass(frozen=True, kw_only=True, slots=True)
class LoRASettings(RankSettings):
    """Shape of every learner's adapter. Source: arXiv:2106.09685."""

    other_names: ClassVar[Mapping[str, str]] = other_names.LORA
    alpha: float = 16.0
    """The adapter's output is multiplied by alpha / rank."""
    target_modules: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layers that have factors: all linear ones but the output head, or names such as [q_proj, v_proj].
    Experts and routers of a mixture of experts are not linear layers and stay as they are."""
    exclude_modules: tuple[str, ...] = ()
    """Modules whose layers have no factors though ``target_modules`` names them, such as [gate,
    shared_expert] or layers."""
    activation: Literal["start", "reply"] = "start"
    """From which token on adapters act: ``start``, all; ``reply``, from the template's words before a reply
    on, so that prompts are read by the base, once for all learners and versions. Source: arXiv:2504.12397."""

    def __post_init__(self) -> None:
        require(self.target_modules != (), "target_modules: name a layer, or leave it out.")
        require(self.rank >= 1, f"rank={self.rank}: use 1 or more.")
        require(0 < self.alpha <= 1e6, f"alpha={self.alpha}: use more than 0, at most 1e6.")


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """How the learners of a base are made and trained. Without slots, so that others may derive from it."""

    parameters: Parameters = "lora"
    """What a learner owns: a LoRA adapter of the frozen base, or with ``full`` a copy of all of its
    weights. ``docs/guides/choose_a_trainer.md`` has the costs of both."""
    dtype: DType = "auto"
    """Of the frozen base: ``auto`` is bfloat16 above 1e9 parameters, else float32. Adapters, their
    gradients and probabilities are float32 always, and whole weights learn only in float32."""
    quantization: Quantization = "none"
    """``nf4`` keeps the linear layers of the frozen base in 4 bits (QLoRA, arXiv:2305.14314), on a GPU and on
    the CPU; only with ``parameters: lora``."""
    attention: Attention = "auto"
    """What computes attention while learning; ``auto`` is transformers' choice. The embedded engine has
    its own."""
    device: str = "auto"
    """``auto`` takes a GPU where there is one, else the CPU. All bases are on one device where
    ``memory.budget_gib`` is set."""
    prompt: PromptSettings = field(default_factory=PromptSettings)
    """Prompt that learners read before each observation."""
    lora: LoRASettings = field(default_factory=LoRASettings)
    """Shape of the learners' adapters; only with ``parameters: lora``."""
    training: Annotated[AlgorithmSettings, TRAINING] = field(default_factory=GRPOSettings)
    """How learners are updated; its ``algorithm`` selects its settings."""
    engine: Annotated[EngineSettings, ENGINE] = field(default_factory=TransformersSettings)
    """Engine that samples replies; its ``kind`` selects its settings."""
    curriculum: Annotated[CurriculumSettings, CURRICULUM] = field(default_factory=FixedShares)
    """How training is shared out among games and levels; its ``kind`` selects its settings."""


def given_of(own: ModelSettings) -> dict[str, Any]:
    """Those of `LearnerSettings` that a base has of its own."""
    found = {part.name: getattr(own, part.name) for part in fields(LearnerSettings)}
    return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
@absent_unless_given(*(part.name for part in fields(LearnerSettings)))
class ModelSettings(LearnerSettings):
    """One base of several; what is absent here follows the recipe, and a section is given whole."""

    other_names: ClassVar[Mapping[str, str]] = other_names.RECIPE
    removed: ClassVar[Removed] = {"full": (None, "leave it to SRL")}
    model: str = field(metadata={STAND_IN: "tiny"})
    """``tiny``, ``smollm2-135m``, a hub id, or a folder."""
    learners: int | tuple[str, ...] = 1
    """Names of those that learn on this base, or how many, called NAME_1, NAME_2, ... by the section's
    name."""
    environments: dict[str, float] | None = None
    """Game of ``environments`` -> share of these learners' training matches, relative to the others'; they
    never train in games that are absent here. Instead of the games' ``weight``."""

    def __post_init__(self) -> None:
        for game, weight in (self.environments or {}).items():
            require_weight(f"environments.{game}", weight, " (never trained)")
        require(
            self.environments is None or any(self.environments.values()),
            "environments: give a game a weight above 0, or leave the section out.",
        )
        require(
            not isinstance(self.learners, int) or 1 <= self.learners <= len(NAMES),
            f"learners={self.learners}: use 1 to {len(NAMES)}, or name them.",
        )
        require(self.learners != (), "learners: name at least one.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """A base as a run has it: every setting, wherever the recipe has it."""

    name: str
    """Agent id of what its learners begin as."""
    folder: str
    """What its files are kept under in the run's folder; empty where it is the only base."""
    model: str
    """As `ModelSettings.model`; so are the others, which are all there."""
    learners: tuple[str, ...]
    """Names."""
    parameters: Parameters
    """See `LearnerSettings`."""
    dtype: DType
    """See `LearnerSettings`."""
    quantization: Quantization
    """See `LearnerSettings`."""
    attention: Attention
    """See `LearnerSettings`."""
    device: str
    """See `LearnerSettings`."""
    prompt: PromptSettings
    """See `LearnerSettings`."""
    lora: LoRASettings
    """See `LearnerSettings`."""
    engine: EngineSettings
    """See `LearnerSettings`."""
    training: AlgorithmSettings
    """See `LearnerSettings`."""
    first_adapters: dict[str, str] = field(default_factory=dict)
    """Learner -> folder of the adapter that it begins as."""
    placement: Placement
    """Where its versions are sampled."""
    placed_by: str = ""
    """Why, where the recipe leaves it to the plan."""

    @property
    def copied(self) -> bool:
        """Whether the process that trains has a second copy of it, for its engine."""
        return self.placement == "colocated" and self.engine.samples_base

    def __post_init__(self) -> None:
        for learner in self.learners:
            require(
                learner.isidentifier() and learner not in (self.name, *RESERVED),
                f"learners: {learner!r} must be letters, digits and underscores, and neither the "
                f"model's name nor one of {', '.join(RESERVED)}.",
            )
        require_model(self.model)
        require(
            self.device in ("auto", "cpu", "cuda") or self.device.removeprefix("cuda:").isdigit(),
            f"device={self.device!r}: use 'auto', 'cpu', 'cuda' or 'cuda:0'.",
        )
        require(
            not self.first_adapters or self.parameters == "lora",
            "init_adapter: with parameters 'full' learners own whole weights; give the folder of such "
            "weights as model.",
        )
        self._check_parameters()

    def _check_parameters(self) -> None:
        """Refuse settings of one kind of weights in a recipe with the other."""
        if self.parameters == "lora":
            return
        require(self.parameters == "full", f"parameters={self.parameters!r}: use 'lora' or 'full'.")
        require(
            self.lora == LoRASettings(),
            "lora: parameters 'full' train no adapter; leave out one of the two.",
        )
        require(
            self.quantization == "none",
            f"quantization={self.quantization!r}: weights in 4 bits cannot learn. With parameters 'full' use "
            "'none'.",
        )
        require(
            self.dtype != "bfloat16",
            f"dtype={self.dtype!r}: whole weights in this type would round small steps away. With "
            "parameters 'full' use float32; training.autocast makes passes in bfloat16 over it.",
        )


def placement_facts(
    engine: EngineSettings, *, beside: bool, device: str, quantization: str, islands: bool
) -> PlacementFacts:
    """Facts that decide where versions are sampled.

    Args:
        engine: samples them.
        beside: another process plays while training goes on, or in turn with it.
        device: of the recipe.
        quantization: of the base.
        islands: parts of the base are float32.
    """
    fixed = ""
    if quantization != "none":
        fixed = "weights in 4 bits cannot be mapped by a second process"
    elif islands:
        fixed = "weights of which some are float32 cannot be mapped by a second process"
    elif device.startswith("cuda") or (device == "auto" and DRIVER.exists()):
        fixed = "weights on a GPU cannot be mapped by a second process yet"
    return PlacementFacts(
        engine=engine.kind,
        has_weights=not engine.samples_base,
        is_server=engine.is_server,
        beside=beside,
        fixed=fixed,
    )


def names_on(base: str, learners: tuple[str, ...] | int) -> tuple[str, ...]:
    """Names of the learners of one base of several, by the name of its section."""
    if isinstance(learners, int):
        return tuple(f"{base}_{number}" for number in range(1, learners + 1))
    return learners
