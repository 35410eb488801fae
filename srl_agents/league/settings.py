"""Settings of a league run: opponents, roles and evaluation. Checked when made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

from srl_agents.agents.grammar import BOT, BotName, HumanName, parse
from srl_agents.league.retention import RetentionSettings
from srl_agents.league.sampling import SamplerSettings, find_sampler
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed

LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
_SHA256 = re.compile(r"[0-9a-f]{64}")
LearnerRole = Literal["main", "main_exploiter", "league_exploiter"]
Preset = Literal["", "auto", "competitive", "small", "cooperative", "mixed", "free_for_all"]


def require(condition: bool, message: str) -> None:
    """Raise `ConfigError` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise ConfigError(message)


def require_weight(name: str, weight: float, zero: str = "") -> None:
    """Refuse a relative weight whose sums and shares could leave what a float holds.

    Raises:
        ConfigError: it is neither 0, nor within `LEAST_WEIGHT` and `MOST_WEIGHT`; ``zero`` explains 0.
    """
    require(
        weight == 0 or LEAST_WEIGHT <= weight <= MOST_WEIGHT,
        f"{name}={weight}: use 0{zero}, or {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetSettings:
    """What an opponent behind an endpoint may be asked in one run, looks and final table included."""

    requests: int
    """Most replies that the run may request."""
    tokens: int | None = None
    """Read and written, thoughts included; absent: they are not limited. Replies whose endpoint does not
    report them count as the longest possible."""
    cost: float | None = None
    """In the currency of the price file, which must list the model; absent: it is not limited."""
    games: dict[str, float] = field(default_factory=dict)
    """Game -> share of each limit that its matches may use; absent games have no limit of their own."""

    def __post_init__(self) -> None:
        require(self.requests >= 1, f"requests={self.requests}: use 1 or more.")
        require(self.tokens is None or self.tokens >= 1, f"tokens={self.tokens}: use 1 or more.")
        require(self.cost is None or self.cost > 0, f"cost={self.cost}: use more than 0.")
        for game, share in self.games.items():
            require(0 < share <= 1, f"games.{game}={share}: use a share above 0, at most 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class StopSettings:
    """What a run may spend before it ends; the update in which it reaches a limit is its last.

    What matches and steps of updates spend is counted. Looks, the final round robin and the warm start are
    not: runs that are compared have the same.
    """

    tokens: int | None = None
    """Tokens that models write, thoughts and the branches of forks included; absent: no limit."""
    trained_tokens: int | None = None
    """Reply tokens of rows that learners step on, once per pass over them; absent: no limit."""
    cpu_s: float | None = None
    """Seconds of processors, of the run's processes on this machine; absent: no limit."""
    budget: str = ""
    """File that the runs of one experiment share, made if absent: the limits are of all of them together.
    Empty: they are of this run."""

    def __post_init__(self) -> None:
        limits = {name: value for name in LIMITS if (value := getattr(self, name)) is not None}
        for name, value in limits.items():
            require(value > 0, f"{name}={value}: use more than 0.")
        require(bool(limits), f"give a limit: {', '.join(LIMITS)}.")


LIMITS = ("tokens", "trained_tokens", "cpu_s")
"""Names of the limits of `StopSettings`, which are those of what a run counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedSettings:
    """What a model or adapter must be, for example as a board published it (`srl leaderboard opponent`)."""

    base_sha256: str
    """Hash of the base's weights and configuration."""
    adapter: str | None = None
    """SHA-256 of the adapter's tensors; absent: the base without an adapter."""
    lora: tuple[float, float] | None = None
    """Rank and alpha of the adapter: the same tensors at another alpha are another agent."""
    prompt: str
    """SHA-256 of what stands before every observation."""
    tokenizer: str
    """SHA-256 of the vocabulary."""

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            require(
                part.name == "lora" or value is None or bool(_SHA256.fullmatch(value)),
                f"{part.name}={value!r}: a SHA-256 has 64 hex digits.",
            )
        require(
            (self.lora is None) == (self.adapter is None),
            "adapter and lora: the hash of an adapter goes with its [rank, alpha].",
        )


@dataclass(frozen=True, kw_only=True)
class BotWeightSettings:
    """Bots as opponents. Without slots, so that other settings may derive from it."""

    bots: dict[str, float] = field(default_factory=dict)
    """Bots that learners meet in training -> weight; ``held_out`` is refused, it is for rating only. Absent
    in an entry of ``environments``: ``opponents.bots``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpponentSettings(SamplerSettings, BotWeightSettings):
    """Whom a learner meets in training: relative weights of kinds of opponent."""

    preset: Preset = ""
    """Take the weights, sampler and rules below from `srl_agents.league.modes`; ``auto`` by the
    environment's mode. They must then be left out here; bots may be added."""
    mirror: float = 1.0
    """The learner itself, at its present version."""
    live: float = 1.0
    """Another main learner, at its present version."""
    past: float = 1.0
    """A frozen snapshot of any learner, or the start; drawn by ``past_sampler``."""
    verify: float = 0.0
    """Exploiters that still beat it, else forgotten versions of its own, else itself."""
    agents: dict[str, float] = field(default_factory=dict)
    """Model, MODEL+ADAPTER or endpoint -> weight; they never learn. See docs/guides/agents.md."""
    budgets: dict[str, BudgetSettings] = field(default_factory=dict)
    """Of every endpoint here or in ``evaluation.agents``: what it may be asked. It leaves a game once what is
    left does not cover its matches, the longest game first."""
    pinned: dict[str, PinnedSettings] = field(default_factory=dict)
    """Agent here or in ``evaluation.agents`` -> what it must be; a run that finds another does not begin."""
    past_sampler: str = "pfsp_hard"
    """Which of the past: one of `srl_agents.league.sampling.SAMPLERS`, or ``package.module:function``."""
    prior: Literal["even", "ratings"] = "ratings"
    """What few games are shrunk to: one half, or what ratings from looks and payoffs expect."""
    past_limit: int = 6
    """Most recent snapshots per learner that stay in the pool."""
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    """Older versions that stay beside the most recent ones."""
    strangers: bool = False
    """From the past only other lineages and the start: partners that were trained apart."""
    payoff_pairs: int = 0
    """Mirrored pairs that a new snapshot plays against each agent in the pool; ``nash`` needs them."""

    removed: ClassVar[Removed] = {
        "decay": (0.998, "choose another opponents.past_sampler"),
        "focal_shares": (False, "write opponents.preset: mixed"),
    }

    def __post_init__(self) -> None:
        kinds = {"mirror": self.mirror, "live": self.live, "past": self.past, "verify": self.verify}
        weights = kinds | self.bots | self.agents
        for name, weight in weights.items():
            require_weight(name, weight)
        require(sum(weights.values()) > 0, "all weights are 0, so no opponent could be drawn.")
        require(
            "held_out" not in self.bots,
            "bots: 'held_out' is for rating only; train against another bot.",
        )
        _check_agents(self.agents)
        try:
            find_sampler(self.past_sampler, self.sampler_options)
        except ConfigError as error:
            raise ConfigError(f"past_sampler={self.past_sampler!r}: {error}") from None
        require(self.past_limit >= 1, f"past_limit={self.past_limit}: use 1 or more.")
        require(self.payoff_pairs >= 0, f"payoff_pairs={self.payoff_pairs}: use 0 or more.")
        require(
            self.payoff_pairs > 0 or not (self.past_sampler == "nash" or self.retention.support),
            "past_sampler='nash' and retention.support look at payoffs between snapshots, which "
            "are not played: set payoff_pairs, for example to 10.",
        )

    @property
    def focal_shares(self) -> bool:
        """Whether a learner holds one seat, half of them, or all but one, in turn at random."""
        return self.preset == "mixed"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExploiterSettings:
    """When exploiters are frozen and start again."""

    patience: int = 4
    """Snapshots after which an exploiter is frozen though it does not beat every main."""

    removed: ClassVar[Removed] = {
        "beaten_at": (0.7, "set exploiters.patience"),
        "reset_chance": (0.25, "set exploiters.patience"),
    }

    def __post_init__(self) -> None:
        require(self.patience >= 1, f"patience={self.patience}: use 1 or more.")


@dataclass(frozen=True, kw_only=True)
class PairsSettings:
    """How much a measurement plays. Without slots, so that other settings may derive from it."""

    pairs: int = 20
    """Mirrored pairs (one seed, all seat rotations) on eval seeds per opponent at each look. Of `srl league
    exploit` those that the bound is read from, 64 unless given."""


@dataclass(frozen=True, kw_only=True)
class UpdatesSettings:
    """How long learners train. Without slots, so that other settings may derive from it."""

    updates: int = 20
    """Optimizer updates per learner, at most. Of ``warm_start`` steps of imitation, 60 unless given; of `srl
    league exploit` those of the exploiter."""


@dataclass(frozen=True, kw_only=True)
class RoundSettings:
    """How often something is done. Without slots, so that other settings may derive from it."""

    every: int = 10
    """Updates between two looks at the learners; 0 looks only at the end. In ``sharing`` updates between two
    rounds, 5 unless given; not for ``rollouts``, nor are the settings below."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationSettings(RoundSettings, PairsSettings):
    """Matches on the eval split; only these feed ratings."""

    seat_gradients: bool = False
    """Whether the updates of looks also measure each seat's share of a learner's gradient
    (``seatK/grad_norm``), by reading their rows once more."""
    final_pairs: int = 60
    """Mirrored pairs between any two agents of the final round robin."""
    bots: tuple[str, ...] = ("random", "middle")
    """Scripted agents on the leaderboard; each is met at every look."""
    agents: tuple[str, ...] = ()
    """Models, adapters and endpoints that are met so, too. See docs/guides/agents.md."""

    def __post_init__(self) -> None:
        require(self.every >= 0, f"every={self.every}: use 0 or more.")
        require(
            bool(self.every) or not self.seat_gradients,
            "seat_gradients: measured at looks, and every=0 has none before the end; set every.",
        )
        for name in ("bots", "agents"):
            given = getattr(self, name)
            require(len(set(given)) == len(given), f"{name}={list(given)}: a name twice.")
        _check_agents(self.agents)
        for name in ("pairs", "final_pairs"):
            value = getattr(self, name)
            require(value >= 1, f"{name}={value}: use 1 or more.")

    @property
    def opponents(self) -> tuple[str, ...]:
        """Ids of the bots and agents that learners are measured against."""
        return (*(f"{BOT}{bot}" for bot in self.bots), *self.agents)


def _check_agents(texts: Iterable[str]) -> None:
    """Refuse names that cannot be opponents in training, and a second way to write an id."""
    for text in texts:
        name = parse(text)
        require(
            not isinstance(name, HumanName),
            f"agents: {text!r}: a run has no keyboard. Start `srl serve human`, and name the endpoint that "
            "it prints, with a budget.",
        )
        require(not isinstance(name, BotName), f"agents: {text!r} is a bot: name it under `bots`.")
        require(str(name) == text, f"agents: {text!r}: write {str(name)!r}, its only id.")
