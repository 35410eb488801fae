"""The recipe of a league run. Model and environment have no default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, ClassVar, Literal

from srl_agents.coordination.independent import IndependentSettings
from srl_agents.coordination.settings import COORDINATION, CoordinationSettings
from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.engines.settings import EngineSettings
from srl_agents.league.matchmaking.lessons import LessonPlan
from srl_agents.league.matchmaking.promotion import PromotionSettings
from srl_agents.league.settings import (
    EvaluationSettings,
    ExploiterSettings,
    LearnerRole,
    OpponentSettings,
    StopSettings,
    UpdatesSettings,
    require,
)
from srl_agents.memory.placements import Placement, choose_placement, placement_fault
from srl_agents.metrics.trackers import TrackerName
from srl_agents.recipes.checks.sections import check_recipe
from srl_agents.recipes.sections import other_names
from srl_agents.recipes.sections.base_models import (
    FROZEN_IN_MEMORY,
    NAME,
    NAMED,
    NAMES,
    Base,
    LearnerSettings,
    ModelSettings,
    given_of,
    is_name,
    names_on,
    placement_facts,
)
from srl_agents.recipes.sections.environment import GameOptions, PaySettings, RunSettings
from srl_agents.recipes.sections.fault_policy import SurvivalSettings
from srl_agents.recipes.sections.fork_choice import ForkSettings
from srl_agents.recipes.sections.games import Game, GameSettings, Shared, resolved
from srl_agents.recipes.sections.generation import GenerationSettings
from srl_agents.recipes.sections.memory import MemorySettings
from srl_agents.recipes.sections.played_examples import with_played
from srl_agents.recipes.sections.ray import RaySettings
from srl_agents.recipes.sections.rollout import RolloutSettings
from srl_agents.recipes.sections.sharing import SharingSettings
from srl_agents.recipes.sections.warm_start import WarmStartSettings
from srl_agents.trainers.supervised.reward_model_settings import RewardModelSettings
from srl_agents.transports.machine_memory import memory_available
from srl_agents.transports.settings import (
    TRANSPORT,
    FilesSettings,
    HostMemorySettings,
    SharedSettings,
    TransportSettings,
)
from srl_envs.errors import ConfigError, SRLError, UnknownPolicyError, raise_all, within
from srl_envs.reading.recovery import STAND_IN
from srl_envs.reading.settings import Removed


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueRecipe(RunSettings, GameOptions, PaySettings, LearnerSettings, UpdatesSettings):
    """Several learners on one base or several, trained against each other, their past and bots."""

    other_names: ClassVar[Mapping[str, str]] = other_names.RECIPE
    removed: ClassVar[Removed] = {
        "keep_best_checkpoints": (1, "set keep_checkpoints"),
        "full": (
            {"snapshots_in_memory": FROZEN_IN_MEMORY},
            "set parameters: lora, whose versions are small",
        ),
    }
    environments: tuple[GameSettings, ...] = ()
    """Instead of ``env``: several games, each with its weight and what is different in it. See
    docs/guides/several_games.md."""
    model: str = field(default="", metadata={STAND_IN: "tiny"})
    """The base of all learners: ``tiny``, ``smollm2-135m``, a hub id, or a folder. It has no default: either
    this or ``models`` is there."""
    models: dict[str, ModelSettings] = field(default_factory=dict)
    """Instead of ``model``: several bases by the names that they get in the league, each with its learners
    and what is different on it. See docs/guides/several_models.md."""
    learners: Annotated[tuple[str, ...], NAMED] = ()
    """Names of those that learn (letters, digits and underscores), or how many, 1 to 8. Absent: two, or those
    of ``models``."""
    roles: dict[str, LearnerRole] = field(default_factory=dict)
    """Learner -> ``main``, ``main_exploiter`` or ``league_exploiter``; main if absent."""
    seats: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Learner -> seats that it and its past may hold, for games whose seats have different roles; all seats
    if absent. For example {alice: [0], bob: [1]}: a navigator and a driver."""
    stop: StopSettings | None = None
    """Tokens or seconds of processors after which the run ends, also before its last update; absent: it has
    no such limit."""
    init_adapter: str | dict[str, str] | None = None
    """Folder of a PEFT adapter of this model and of the shape in ``lora``, whose weights all learners begin
    with; or learner -> folder, and who is not named begins as the base."""
    warm_start: WarmStartSettings | None = None
    """Bots that learners imitate before the first update; absent: they begin as the base, or as
    ``init_adapter``."""
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    """How experience is collected."""
    forks: ForkSettings | None = None
    """Decisions of learners that are answered again after each update's matches, for estimators of ``credit``
    that compare alternatives; absent: none."""
    opponents: OpponentSettings = field(default_factory=OpponentSettings)
    """Opponents of learners, and how often they are met."""
    exploiters: ExploiterSettings = field(default_factory=ExploiterSettings)
    """When exploiters begin again; only where ``roles`` names one."""
    promotion: PromotionSettings | None = None
    """Gate that a main's snapshot passes before it is frozen; without it every snapshot is."""
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    """When learners are evaluated, and against which opponents."""
    scale_advantages: bool = False
    """Divide each group's advantages by their deviation."""
    coordination: Annotated[CoordinationSettings, COORDINATION] = field(
        default_factory=IndependentSettings
    )
    """How learners' updates are combined; its ``kind`` selects its settings."""
    reward_model: RewardModelSettings | None = None
    """A learned judge beside the rules, only for credit; absent: the rules are all."""
    sharing: SharingSettings | None = None
    """How learners are shown what others wrote; absent: they are not."""
    snapshot_every: int = 10
    """Updates between two frozen versions of a learner."""
    checkpoint_every: int = 5
    """Updates between two checkpoints."""
    keep_checkpoints: int = 2
    """The newest, to resume from; the best one by looks stays, too."""
    placement: Literal["auto", "colocated", "hybrid", "disaggregated"] = "auto"
    """Where versions are sampled. ``colocated``: engine and trainer take turns in one process, each with
    weights of its own. ``hybrid``: they share the memory of the base's weights. ``disaggregated``: each has a
    process and weights of its own. ``auto`` takes what needs the fewest copies, and prints why. See
    docs/design/placements.md."""
    transport: Annotated[TransportSettings, TRANSPORT] | None = None
    """How new weights reach the engine; its ``kind`` selects its settings. Absent: ``shared`` within a
    process; between two that take turns ``host_memory`` where it is there; ``files`` where matches are played
    ahead, because their weights must outlive both."""
    asynchronous: GenerationSettings | None = None
    """Another process plays for later updates while this one trains; absent: they take turns."""
    ray: RaySettings = field(default_factory=RaySettings)
    """Who plays where with ``srl train --ray``; without the flag it has no effect."""
    survival: SurvivalSettings = field(default_factory=SurvivalSettings)
    """Thresholds of faults, and what is done about each."""
    memory: MemorySettings = field(default_factory=MemorySettings)
    """Memory budget, precision, and what leaves memory between phases."""
    report_to: tuple[TrackerName, ...] = ()
    """Dashboards that get every record too: ``trackio``, ``wandb``. TensorBoard always does."""

    def __post_init__(self) -> None:
        self._name_learners()
        check_recipe(self)
        self._fill_in_wrappers()
        self._fill_in_examples()

    def _fill_in_wrappers(self) -> None:
        """Say each wrapper's settings whole, as games resolved them."""
        if self.environments:
            whole = tuple(
                replace(entry, wrappers=game.wrappers)
                for entry, game in zip(self.environments, self.games, strict=True)
            )
            object.__setattr__(self, "environments", whole)
        else:
            object.__setattr__(self, "wrappers", self.games[0].wrappers)

    def _fill_in_examples(self) -> None:
        """Replace `PromptSettings.examples_from` by the turns that bots play."""
        own_prompts = {
            name: given["prompt"]
            for name, own in self.models.items()
            if "prompt" in (given := given_of(own))
        }
        prompts = [self.prompt, *own_prompts.values()]
        if all(prompt.examples_from is None for prompt in prompts):
            return
        games = self.games
        object.__setattr__(self, "prompt", with_played(self.prompt, games))
        models = {
            name: replace(own, prompt=with_played(own_prompts[name], games))
            if name in own_prompts
            else own
            for name, own in self.models.items()
        }
        object.__setattr__(self, "models", models)

    @property
    def games(self) -> tuple[Game, ...]:
        """Where learners play: ``env`` with its options, or those of ``environments``.

        Raises:
            ConfigError: a game cannot be played with the recipe's settings.
        """
        require(
            bool(self.env) != bool(self.environments),
            "env, environments: name one game as `env`, or several under `environments`.",
        )
        entries = self.environments or (
            GameSettings(
                env=self.env,
                env_options=self.env_options,
                wrappers=self.wrappers,
                teams=self.teams,
            ),
        )
        shared = Shared(
            credit=self.credit,
            rewards=self.rewards,
            opponents=self.opponents,
            rated_against=self.evaluation.bots,
            max_new_tokens=self.rollout.max_new_tokens,
            several=bool(self.environments),
        )
        games: list[Game] = []
        errors: list[SRLError] = []
        for number, entry in enumerate(entries):
            try:
                games.append(resolved(entry, shared))
            except SRLError as error:
                place = f"environments[{number}] {entry.name or entry.env}"
                errors.append(within(place, error) if self.environments else error)
        raise_all(errors)
        return tuple(games)

    @property
    def bases(self) -> tuple[Base, ...]:
        """The models that learners are adapters of, in training order; one, or those of ``models``.

        Raises:
            ConfigError: a base cannot be as it is described.
        """
        if not self.models:
            return (
                self._base(self.model, ModelSettings(model=self.model, learners=self.learners)),
            )
        found: list[Base] = []
        errors: list[SRLError] = []
        for name, own in self.models.items():
            try:
                found.append(self._base(name, own))
            except (ConfigError, UnknownPolicyError) as error:
                errors.append(within(f"models.{name}", error))
        raise_all(errors)
        return tuple(found)

    @property
    def lesson_plans(self) -> dict[str, LessonPlan]:
        """Learner -> its games and curriculum, where its base has some of its own."""
        return {
            learner: LessonPlan(weights=own.environments, curriculum=own.curriculum)
            for name, own in self.models.items()
            if own.environments is not None or "curriculum" in given_of(own)
            for learner in names_on(name, own.learners)
        }

    @property
    def coordinated(self) -> dict[str, tuple[str, ...]]:
        """Group -> learners whose updates are combined: all, or those of one base, by the name of the first.

        Where a kind gives its learners one origin, only mains: exploiters begin again by themselves.
        """
        kind = self.coordination
        names = [
            name
            for name in self.learners
            if not kind.starts_alike or self.roles.get(name, "main") == "main"
        ]
        if len(self.bases) == 1 or not kind.within_a_base:
            return {"all": tuple(names)}
        groups: dict[str, tuple[str, ...]] = {}
        first: dict[str, str] = {}
        for base in self.bases:
            own = tuple(name for name in base.learners if name in names)
            if own:
                model = base.model if kind.across_bases else base.name
                group = first.setdefault(model, base.name)
                groups[group] = (*groups.get(group, ()), *own)
        return groups

    @property
    def generation(self) -> GenerationSettings | None:
        """Of the process that plays the matches that are learned from; None: this one plays them.

        With placement ``disaggregated`` and no section ``asynchronous`` it plays when training waits.
        """
        if self.asynchronous is not None:
            return self.asynchronous
        apart = self.placement == "disaggregated" and not self.engine.is_server
        return GenerationSettings(ahead=0, max_staleness=0) if apart else None

    @property
    def carrier(self) -> TransportSettings:
        """``transport``, or where it is absent the cheapest that reaches the engine."""
        if self.transport is not None:
            return self.transport
        if self.generation is None:
            return SharedSettings()
        in_turn = self.generation.ahead == 0
        return HostMemorySettings() if in_turn and memory_available() else FilesSettings()

    def _placed(
        self, engine: EngineSettings, device: str, quantization: str
    ) -> tuple[Placement, str]:
        """Where versions of a base are sampled, and why, if the recipe does not say it.

        Raises:
            ConfigError: a setting contradicts the recipe's engine or ``asynchronous``.
        """
        facts = placement_facts(
            engine,
            beside=self.asynchronous is not None,
            device=device,
            quantization=quantization,
            islands=bool(self.memory.float32_islands),
        )
        if self.placement == "auto":
            choice = choose_placement(facts)
            return choice.placement, choice.reason
        fault = placement_fault(self.placement, facts)
        require(not fault, fault)
        return self.placement, ""

    def _base(self, name: str, own: ModelSettings) -> Base:
        learners = names_on(name, own.learners)
        shared = {
            part.name: getattr(self, part.name)
            for part in fields(LearnerSettings)
            if part.name != "curriculum"
        } | {key: value for key, value in given_of(own).items() if key != "curriculum"}
        first = self.first_adapters
        placement, reason = self._placed(shared["engine"], shared["device"], shared["quantization"])
        return Base(
            placement=placement,
            placed_by=reason,
            name=name,
            folder=name if self.models else "",
            model=own.model,
            learners=learners,
            first_adapters={learner: first[learner] for learner in learners if learner in first},
            **shared,
        )

    def _name_learners(self) -> None:
        """Give ``learners`` their names, and see that there are some, each once, on one base."""
        require(
            bool(self.model) != bool(self.models),
            "model: name the base of all learners as `model`, or several bases as `models`: one of the two.",
        )
        names = self.learners or NAMES[:2]
        if self.models:
            for name in self.models:
                require(
                    is_name(name),
                    f"models: {name!r}: use {NAME}; it becomes a folder.",
                )
            named = [(k, x) for k, own in self.models.items() for x in names_on(k, own.learners)]
            names = tuple(learner for _, learner in named)
            require(
                not self.learners or self.learners == names,
                "learners: with `models` each base names its own; leave `learners` out.",
            )
        require(len(set(names)) == len(names), f"learners={names}: a name twice.")
        object.__setattr__(self, "learners", names)

    @property
    def first_adapters(self) -> dict[str, str]:
        """Learner -> folder of the adapter that it begins as; the base where it is absent."""
        given = self.init_adapter
        if isinstance(given, str):
            return dict.fromkeys(self.learners, given)
        return dict(given or {})

    @property
    def judges_answers(self) -> bool:
        """Whether a reward or an estimator reads the answers that a game holds to be right."""
        return any(
            ESTIMATORS.find(game.credit.estimator).needs_answers for game in self.games
        ) or any(
            term.references
            for game in self.games
            if game.rewards is not None
            for term in game.rewards.terms.values()
        )

    @property
    def guests(self) -> tuple[str, ...]:
        """Ids of agents outside this league that its learners meet."""
        return tuple(dict.fromkeys((*self.opponents.agents, *self.evaluation.agents)))
