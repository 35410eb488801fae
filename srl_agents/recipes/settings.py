"""The recipe of a league run. Model and environment have no default."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from srl_agents.agents.grammar import EndpointName, parse
from srl_agents.agents.prompt_file import PromptSettings
from srl_agents.agents.resolver import known_name, require_model
from srl_agents.coordination.independent import IndependentSettings
from srl_agents.coordination.settings import COORDINATION, CoordinationSettings
from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.credit.settings import CreditSettings
from srl_agents.engines.providers import find_model
from srl_agents.engines.settings import ENGINE, EngineSettings, TransformersSettings
from srl_agents.league.arenas import Arenas
from srl_agents.league.curricula import CURRICULUM, CurriculumSettings, FixedShares
from srl_agents.league.promotion import PromotionSettings
from srl_agents.league.settings import (
    EvaluationSettings,
    ExploiterSettings,
    LearnerRole,
    OpponentSettings,
    require,
)
from srl_agents.metrics.trackers import TrackerName
from srl_agents.recipes.activation import check_activation
from srl_agents.recipes.base_settings import (
    NAMED,
    NAMES,
    Attention,
    Base,
    DType,
    FullSettings,
    LoRASettings,
    ModelSettings,
    Parameters,
    Quantization,
    names_on,
)
from srl_agents.recipes.game_settings import (
    Game,
    GameSettings,
    Shared,
    arenas_of,
    check_games,
    resolved,
)
from srl_agents.recipes.generation_settings import GenerationSettings
from srl_agents.recipes.memory_settings import MemorySettings
from srl_agents.recipes.rollout_settings import RolloutSettings
from srl_agents.recipes.sharing_settings import SharingSettings
from srl_agents.recipes.survival_settings import SurvivalSettings
from srl_agents.recipes.warm_start_settings import WarmStartSettings
from srl_agents.rewards.settings import RewardSettings
from srl_agents.trainers.algorithms import TRAINING, AlgorithmSettings, Plan
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.reward_model_settings import RewardModelSettings
from srl_agents.transports.settings import TRANSPORT, SharedSettings, TransportSettings
from srl_envs.errors import ConfigError, SRLError, UnknownPolicyError


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueRecipe:
    """Several learners on one base or several, trained against each other, their past and bots."""

    name: str
    """Names the run's folder."""
    env: str = ""
    """Registered environment id of the only game. It has no default: either this or ``environments`` is
    there."""
    environments: tuple[GameSettings, ...] = ()
    """Instead of ``env``: several games, each with its weight and what is different in it. See
    docs/guides/several_games.md."""
    curriculum: Annotated[CurriculumSettings, CURRICULUM] = field(default_factory=FixedShares)
    """How training is shared out among games and levels; its ``kind`` says which settings it has."""
    model: str = ""
    """The base of all learners: ``tiny``, ``smollm2-135m``, a hub id, or a folder. It has no default: either
    this or ``models`` is there."""
    models: dict[str, ModelSettings] = field(default_factory=dict)
    """Instead of ``model``: several bases by the names that they get in the league, each with its learners
    and what is different on it. See docs/guides/several_models.md."""
    env_options: dict[str, Any] = field(default_factory=dict)
    """Options of `srl_envs.make`, in training and evaluation alike."""
    wrappers: tuple[dict[str, Any], ...] = ()
    """Wrappers of `srl_envs.wrappers` around the environment, from the inside out, in training and
    evaluation alike: ``kind`` and arguments."""
    seed: int = 0
    """Root of all randomness of the run."""
    learners: Annotated[tuple[str, ...], NAMED] = ()
    """Names of those that learn (letters, digits and underscores), or how many, 1 to 8. Absent: two, or those
    of ``models``."""
    roles: dict[str, LearnerRole] = field(default_factory=dict)
    """Learner -> ``main``, ``main_exploiter`` or ``league_exploiter``; main if absent."""
    seats: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Learner -> seats that it and its past may hold, for games whose seats have different roles; all seats
    if absent. For example {alice: [0], bob: [1]}: a navigator and a driver."""
    teams: tuple[int, ...] = ()
    """Team per seat, for example [0, 0, 1, 1]; empty where every seat plays for itself."""
    updates: int = 20
    """Optimizer updates per learner."""
    parameters: Parameters = "lora"
    """What a learner owns: a LoRA adapter of the frozen base, or with ``full`` a copy of all of its
    weights. ``docs/guides/choose_a_trainer.md`` says what either costs."""
    dtype: DType = "auto"
    """Of the frozen base: ``auto`` is bfloat16 above 1e9 parameters, else float32. Adapters, their
    gradients and probabilities are float32 always, and whole weights learn in float32 alone."""
    quantization: Quantization = "none"
    """``nf4`` keeps the linear layers of the frozen base in 4 bits (QLoRA, arXiv:2305.14314), on a GPU and on
    the CPU; with ``parameters: lora`` alone."""
    attention: Attention = "auto"
    """What computes attention while learning; ``auto`` is transformers' choice. The embedded engine has
    its own."""
    device: str = "auto"
    """``auto`` takes a GPU where there is one, else the CPU."""
    prompt: PromptSettings = field(default_factory=PromptSettings)
    """What learners read before each observation."""
    lora: LoRASettings = field(default_factory=LoRASettings)
    """Shape of the learners' adapters; with ``parameters: lora`` alone."""
    full: FullSettings = field(default_factory=FullSettings)
    """Of whole weights; with ``parameters: full`` alone."""
    init_adapter: str | dict[str, str] | None = None
    """Folder of a PEFT adapter of this model and of the shape in ``lora``, whose weights all learners begin
    with; or learner -> folder, and who is not named begins as the base."""
    warm_start: WarmStartSettings | None = None
    """Bots that learners imitate before the first update; absent: they begin as the base, or as
    ``init_adapter``."""
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    """How experience is collected."""
    opponents: OpponentSettings = field(default_factory=OpponentSettings)
    """Whom learners meet, and how often."""
    exploiters: ExploiterSettings = field(default_factory=ExploiterSettings)
    """When exploiters begin again; only where ``roles`` names one."""
    promotion: PromotionSettings | None = None
    """Gate that a main's snapshot passes before it is frozen; without it every snapshot is."""
    training: Annotated[AlgorithmSettings, TRAINING] = field(default_factory=GRPOSettings)
    """How learners are updated; its ``algorithm`` says which settings it has."""
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    """When and against whom learners are looked at."""
    scale_advantages: bool = False
    """Divide each group's advantages by their deviation."""
    credit: CreditSettings = field(default_factory=CreditSettings)
    """How rewards become advantages."""
    coordination: Annotated[CoordinationSettings, COORDINATION] = field(
        default_factory=IndependentSettings
    )
    """How learners' updates are combined; its ``kind`` says which settings it has."""
    rewards: RewardSettings | None = None
    """What counts how much in what credit sees; absent: what the environment pays."""
    reward_model: RewardModelSettings | None = None
    """A learned judge beside the rules, for credit alone; absent: the rules are all."""
    sharing: SharingSettings | None = None
    """How learners are shown what others wrote; absent: they are not."""
    snapshot_every: int = 10
    """Updates between two frozen versions of a learner."""
    checkpoint_every: int = 5
    """Updates between two checkpoints."""
    keep_checkpoints: int = 2
    """The newest, to resume from."""
    keep_best_checkpoints: int = 1
    """Besides, those with the highest score in a look at the same update; 0 keeps none."""
    engine: Annotated[EngineSettings, ENGINE] = field(default_factory=TransformersSettings)
    """What samples replies; its ``kind`` says which settings it has."""
    transport: Annotated[TransportSettings, TRANSPORT] = field(default_factory=SharedSettings)
    """How new weights reach the engine; its ``kind`` says which settings it has."""
    asynchronous: GenerationSettings | None = None
    """Another process plays for later updates while this one trains; absent: they take turns."""
    survival: SurvivalSettings = field(default_factory=SurvivalSettings)
    """What counts as gone wrong, and what is done then."""
    memory: MemorySettings = field(default_factory=MemorySettings)
    """What leaves memory between phases."""
    report_to: tuple[TrackerName, ...] = ()
    """Dashboards that get every record too: ``trackio``, ``wandb``. TensorBoard always does."""

    def __post_init__(self) -> None:
        self._name_learners()
        require(self.seed >= 0, f"seed={self.seed}: use 0 or more.")
        for name in ("updates", "snapshot_every", "checkpoint_every", "keep_checkpoints"):
            value = getattr(self, name)
            require(value >= 1, f"{name}={value}: use 1 or more.")
        require(
            self.keep_best_checkpoints >= 0,
            f"keep_best_checkpoints={self.keep_best_checkpoints}: use 0 or more.",
        )
        require(
            self.reward_model is None or "reward_model" not in self.learners,
            "learners: with a reward_model none may be called 'reward_model', as it is in checkpoints.",
        )
        require(
            self.name.replace("-", "_").replace(".", "_").isidentifier(),
            f"name={self.name!r}: use letters, digits, '-', '_' and '.'; it becomes a folder.",
        )
        if self.reward_model is not None and self.reward_model.model is not None:
            require_model(self.reward_model.model)
        self._check_environments()
        self._check_first_adapters()
        for base in self.bases:
            self._check_base(base)
        self._check_coordination()
        self._check_pairs()
        if self.sharing is not None:
            require(len(self.learners) > 1, "sharing: one learner has nobody to share with.")
            require(
                not self.coordination.stays_equal,
                f"sharing: learners of coordination kind {self.coordination.kind!r} are equal for ever, "
                "and have nothing to show each other; leave out one of the two.",
            )
        unknown = [name for name in self.roles if name not in self.learners]
        require(not unknown, f"roles: {unknown} are no learners; there are {self.learners}.")
        require(
            any(self.roles.get(name, "main") == "main" for name in self.learners),
            f"roles={self.roles}: exploiters need a main to exploit; leave one learner without role.",
        )
        require(
            not self.coordination.starts_alike or set(self.roles.values()) <= {"main"},
            f"roles={self.roles}: exploiters play against a main and start again from their first "
            f"weights; coordination kind {self.coordination.kind!r} would mix the two. Leave out one.",
        )
        self._check_several()
        if self.asynchronous is not None:
            self._check_generation(self.asynchronous)

    @property
    def games(self) -> tuple[Game, ...]:
        """Where learners play: ``env`` with its options, or those of ``environments``.

        Raises:
            ConfigError: one of them cannot be played as the recipe wants it.
        """
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
        games = []
        for number, entry in enumerate(entries):
            try:
                games.append(resolved(entry, shared))
            except SRLError as error:
                if not self.environments:
                    raise
                raise ConfigError(
                    f"environments[{number}] {entry.name or entry.env}: {error}"
                ) from None
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
        found = []
        for name, own in self.models.items():
            try:
                found.append(self._base(name, own))
            except (ConfigError, UnknownPolicyError) as error:
                raise ConfigError(f"models.{name}: {error}") from None
        return tuple(found)

    def _base(self, name: str, own: ModelSettings) -> Base:
        learners = names_on(name, own.learners)
        shared = {
            key: getattr(self, key) if getattr(own, key) is None else getattr(own, key)
            for key in (
                *("parameters", "dtype", "quantization", "attention", "device"),
                *("prompt", "lora", "full", "engine", "training"),
            )
        }
        first = self.first_adapters
        return Base(
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
                    name.replace("-", "_").replace(".", "_").isidentifier() and "@" not in name,
                    f"models: {name!r}: use letters, digits, '-', '_' and '.'; it becomes a folder.",
                )
            named = [(k, x) for k, own in self.models.items() for x in names_on(k, own.learners)]
            names = tuple(learner for _, learner in named)
            require(
                not self.learners or self.learners == names,
                "learners: with `models` each base names its own; leave `learners` out.",
            )
        require(len(set(names)) == len(names), f"learners={names}: a name twice.")
        object.__setattr__(self, "learners", names)

    def _check_base(self, base: Base) -> None:
        """What the rest of the recipe asks of every base."""
        within = f"models.{base.name}: " if self.models else ""
        try:
            for game in self.games:
                base.training.check(self._plan(base, game))
            # each learner's present version, and those of its past that the pool keeps
            past = min(self.opponents.past_limit, max(self.updates // self.snapshot_every - 1, 0))
            # and where orders wait, those of each, with what the pool drops meanwhile
            waiting = 0 if self.asynchronous is None else 2 * self.asynchronous.ahead
            base.engine.require_versions(len(base.learners) * (1 + past + waiting))
            require(
                self.memory.budget_gib is None or base.quantization == "none",
                "memory.budget_gib: weights in 4 bits stay where they are; leave out budget_gib or "
                "quantization.",
            )
            require(
                self.memory.budget_gib is None or base.parameters == "lora",
                "memory.budget_gib: whole weights stay where they are; with parameters 'full' leave it out.",
            )
            self._check_thoughts(base)
            if base.lora.activation == "reply":
                check_activation(base, self)
        except ConfigError as error:
            raise ConfigError(f"{within}{error}") from None

    def _check_coordination(self) -> None:
        """Whom updates are combined of: kinds that combine weights do so within a base."""
        kind = self.coordination
        if len(self.bases) == 1 or not kind.within_a_base:
            kind.check(learners=len(self.learners), parameters=self.bases[0].parameters)
            return
        together = [base for base in self.bases if len(base.learners) > 1]
        told = "; ".join(f"{b.name} has {', '.join(b.learners)}" for b in self.bases)
        require(
            bool(together),
            f"coordination.kind={kind.kind!r}: weights of different bases cannot be merged or compared, and "
            f"no base has two learners: {told}. Put two learners on one base, or use kind 'independent'.",
        )
        for base in together:
            kind.check(learners=len(base.learners), parameters=base.parameters)

    def _check_first_adapters(self) -> None:
        """Whom adapters are given to, and whether these may differ; `training` looks at their files."""
        given = self.first_adapters
        strangers = [name for name in given if name not in self.learners]
        require(
            not strangers,
            f"init_adapter: {strangers} are no learners; there are {list(self.learners)}.",
        )
        require(
            not self.models or not isinstance(self.init_adapter, str),
            "init_adapter: an adapter is of one base; with `models` give learner -> folder.",
        )
        alike = len(given) in (0, len(self.learners)) and len(set(given.values())) <= 1
        require(
            alike or not self.coordination.starts_alike,
            f"init_adapter: learners of coordination kind {self.coordination.kind!r} begin alike; give one "
            "folder for all.",
        )

    @property
    def first_adapters(self) -> dict[str, str]:
        """Learner -> folder of the adapter that it begins as; the base where it is absent."""
        given = self.init_adapter
        if isinstance(given, str):
            return dict.fromkeys(self.learners, given)
        return dict(given or {})

    def _check_pairs(self) -> None:
        """What learns from pairs of attempts needs two of them."""
        shares_pairs = self.sharing is not None and self.sharing.kind == "dpo"
        require(
            self.rollout.group_size >= 2 or not (self.reward_model or shares_pairs),
            f"rollout: group_size={self.rollout.group_size}: reward_model and sharing of kind 'dpo' "
            "learn from pairs of attempts at one start state. Use 2 or more.",
        )

    def _check_thoughts(self, base: Base) -> None:
        """What needs thoughts is refused without them, and what would imitate them with them."""
        if base.prompt.thoughts is not None:
            require(
                self.sharing is None or self.sharing.kind == "demonstrations",
                "sharing: kinds 'sft' and 'dpo' imitate whole completions, and in thoughts some tokens are "
                "the engine's; leave out prompt.thoughts, or share demonstrations.",
            )
            return
        terms = {
            name: term
            for game in self.games
            if game.rewards is not None
            for name, term in game.rewards.terms.items()
        }
        unread = [f"rewards.terms.{name}" for name, term in terms.items() if term.judges_thoughts]
        unread += [] if self.games[0].credit.train_thoughts else ["credit.train_thoughts"]
        require(not unread, f"{', '.join(unread)}: there are no thoughts; set prompt.thoughts.")

    def _check_generation(self, generation: GenerationSettings) -> None:
        """What cannot be done beside generation in another process is refused by name."""
        require(
            self.memory.budget_gib is None,
            "memory.budget_gib: with asynchronous two processes hold models, and one is measured; leave one "
            "of the two out.",
        )
        require(self.sharing is None, "asynchronous, sharing: leave out one of the two.")
        require(
            self.parameters == "lora",
            "asynchronous, parameters='full': versions are adapters there. Use 'lora'.",
        )
        require(
            self.transport.crosses_processes,
            f"asynchronous, transport.kind={self.transport.kind!r}: its weights stay in this process. Set "
            "transport.kind to 'files'.",
        )
        require(
            not self.opponents.agents,
            "asynchronous, opponents.agents: guests play where training waits for them alone. Leave out "
            "one of the two.",
        )
        require(
            self.training.learns_rows,
            f"asynchronous, training.algorithm={self.training.algorithm!r}: it learns no rows whose age "
            "could be bounded. Use 'grpo' or 'ppo'.",
        )
        steps = generation.ahead * self.training.steps_per_batch
        require(
            generation.max_staleness >= steps,
            f"asynchronous: ahead={generation.ahead} makes rows {steps} steps old, and max_staleness="
            f"{generation.max_staleness} would drop them all. Use max_staleness={steps} or more.",
        )
        require(
            generation.in_flight == "keep" or self.rollout.order == "free",
            "asynchronous: in_flight='switch' depends on the clock, and rollout.order='exact' is for runs "
            "that repeat. Set rollout.order to 'free'.",
        )
        judged = (
            any(game.rewards is not None for game in self.games) or self.reward_model is not None
        )
        grouped = all(ESTIMATORS.find(game.credit.estimator).has_groups for game in self.games)
        require(
            not generation.refill_limit or (grouped and not judged),
            f"asynchronous: refill_limit={generation.refill_limit}: whether a group is flat is seen from "
            "what the environment pays. With rewards, reward_model or an estimator without groups leave it "
            "out.",
        )

    def _check_several(self) -> None:
        """What is of one base alone is refused with several, by name."""
        if len(self.bases) == 1:
            return
        for section in ("asynchronous", "reward_model"):
            require(
                getattr(self, section) is None,
                f"{section}, models: it works on the tokens of one base. Leave out one of the two.",
            )
        require(
            self.sharing is None or self.sharing.kind != "dpo",
            "sharing.kind 'dpo', models: pairs are tokens of one base. Share 'sft' or 'demonstrations', as "
            "texts.",
        )

    def _plan(self, base: Base, game: Game) -> Plan:
        """What the algorithm may know of this recipe, in one of its games."""
        others = {
            "warm_start.training": self.warm_start and self.warm_start.training,
            "sharing.sft": self.sharing and self.sharing.sft,
            "sharing.dpo": self.sharing and self.sharing.dpo,
            "reward_model": self.reward_model,
        }
        undecided = [
            name for name, own in others.items() if own and own.gradient_checkpointing == "auto"
        ]
        require(
            not undecided,
            f"{', '.join(undecided)}.gradient_checkpointing='auto': only training has that; use true or "
            "false.",
        )
        return Plan(
            updates=self.updates,
            group_size=self.rollout.group_size,
            scale_advantages=self.scale_advantages,
            credit=game.credit,
            teacher=self.coordination.kind if self.coordination.teaches else "",
            thoughts=base.prompt.thoughts is not None,
            checkpointed=tuple(
                name for name, own in others.items() if own and own.gradient_checkpointing
            ),
        )

    @property
    def judges_answers(self) -> bool:
        """Whether a reward compares replies with what a game knows to be right."""
        return any(
            term.references
            for game in self.games
            if game.rewards is not None
            for term in game.rewards.terms.values()
        )

    def _check_environments(self) -> None:
        """Unknown ids, options and bots are found here, before anything is loaded."""
        require(
            bool(self.env) != bool(self.environments),
            "env, environments: name one game as `env`, or several under `environments`.",
        )
        if self.environments:
            for name in ("env_options", "wrappers", "teams"):
                require(
                    not getattr(self, name),
                    f"{name}: with `environments` each of them has its own {name}; leave it out here.",
                )
        games = self.games
        check_games(games)
        require(
            not self.seats or not self.environments,
            "seats: they are roles of one game, and `environments` names several; leave out one of the two.",
        )
        self._check_seats(games[0].seats)
        Arenas(arenas_of(games))  # refuses two games that cannot be told apart
        if self.environments:
            whole = tuple(
                replace(entry, wrappers=game.wrappers)
                for entry, game in zip(self.environments, games, strict=True)
            )
            object.__setattr__(self, "environments", whole)
        else:
            object.__setattr__(self, "wrappers", games[0].wrappers)
        require(
            not self.curriculum.needs_levels or any(game.levels for game in games),
            f"curriculum.kind={self.curriculum.kind!r} moves between levels, and no game has any; give one "
            "of `environments` its `levels`.",
        )
        trained = [game for game in games if game.weight > 0]
        together = {game.mode == "cooperative" for game in trained}
        require(
            self.promotion is None or len(together) == 1,
            "promotion: a gate adds up games that are all cooperative, or none; "
            f"{', '.join(game.name for game in trained)} are both.",
        )
        if self.warm_start is not None:
            for game in trained:
                game.check_bots("warm_start.bots", self.warm_start.bots)
        for game in games:
            require(
                not self.scale_advantages or ESTIMATORS.find(game.credit.estimator).has_groups,
                f"scale_advantages: estimator {game.credit.estimator!r} has no groups to scale by; "
                "use credit.normalise instead.",
            )
        for name in self.guests:
            require(
                name not in {base.name for base in self.bases},
                f"agents: {name!r} is what learners start as, and is met as such.",
            )
            for game in games:
                known_name(name, game.env_id)
        for agent, budget in self.opponents.budgets.items():
            served = parse(agent)
            require(
                budget.cost is None
                or not isinstance(served, EndpointName)
                or find_model(served.url, served.model).price is not None,
                f"opponents.budgets: {agent!r}: what it costs is not known. Name a price file in the "
                "providers file (docs/guides/endpoints.md), or leave out cost.",
            )

    def _check_seats(self, seats: int) -> None:
        """Every seat of the game has a main that may hold it."""
        strangers = [name for name in self.seats if name not in self.learners]
        require(
            not strangers, f"seats: {strangers} are no learners; there are {list(self.learners)}."
        )
        for name, held in self.seats.items():
            require(
                bool(held) and set(held) <= set(range(seats)) and len(set(held)) == len(held),
                f"seats.{name}={list(held)}: {self.games[0].env_id} has seats 0 to {seats - 1}; name "
                "one or more, each once.",
            )
        mains = [name for name in self.learners if self.roles.get(name, "main") == "main"]
        empty = [s for s in range(seats) if all(s not in self.seats.get(m, (s,)) for m in mains)]
        require(
            not empty,
            f"seats: no main may hold seat {empty} of {self.games[0].env_id}; name a learner for each seat.",
        )

    @property
    def guests(self) -> tuple[str, ...]:
        """Ids of agents that are no part of this league, and whom its learners meet."""
        return tuple(dict.fromkeys((*self.opponents.agents, *self.evaluation.agents)))
