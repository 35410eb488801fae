"""One update of a league run: named phases in a fixed order, each of which reads what earlier ones left.

``play`` matches, ``branch`` them where the recipe has forks, ``judge`` the episodes, ``credit`` them,
``update`` the weights, ``count`` what that took, ``publish`` the new versions, ``look`` at them on eval
seeds, ``report`` the metrics, take a ``snapshot``, write a ``checkpoint``. A phase holds only the parts that
it needs; what it leaves for later ones is a field of the `Update`. It calls no other phase.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import torch

from srl_agents.credit.batches import of_age
from srl_agents.league.matchmaking.manager import League
from srl_agents.memory.phase_manager import PhaseManager, phase_on
from srl_agents.metrics import ConsoleView, Record, Sink
from srl_agents.metrics.names import reward_statistics
from srl_agents.models.memory.available import allocated_gb
from srl_agents.recipes.sections.fault_policy import STALE_ABOVE
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, TrainingBatch
from srl_agents.rewards.game_rewards import RewardsByGame
from srl_agents.rewards.learned_reward import LearnedReward, rule_reward
from srl_agents.rollouts import Rollouts
from srl_agents.trainers.experience import Experience
from srl_agents.trainers.learner import Batch
from srl_agents.training.ahead.shared_matches import SharedMatches
from srl_agents.training.bases import LoadedBase, devices_of
from srl_agents.training.faults.stalled import IdleLearners
from srl_agents.training.faults.survival import Survival
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.gauges.machine import SystemMeter
from srl_agents.training.loop.evaluation import Evaluation
from srl_agents.training.loop.matches import Matches
from srl_agents.training.loop.stages import Parts
from srl_agents.training.loop.state import RunState
from srl_agents.training.loop.step import Steps
from srl_agents.training.loop.versions import LeagueVersions
from srl_agents.training.parts.exchange_rounds import RolloutExchange
from srl_agents.training.parts.forking import Forking
from srl_agents.training.parts.sharing_rounds import Sharing
from srl_agents.training.parts.single import Learners
from srl_agents.training.parts.spending import Spending
from srl_envs.errors import SandboxError


@dataclass(kw_only=True, slots=True)
class Update:
    """One update while it is made."""

    number: int
    """Number of the update, from 1."""
    sinks: Sequence[Sink]
    """Sinks that get its record."""
    episodes: list[Episode] = field(default_factory=list)
    """Episodes with the game's own outcomes."""
    branches: list[Episode] | None = None
    """Branches that another process played with the matches; None where they are played here."""
    valued: list[Episode] = field(default_factory=list)
    """Episodes with the rewards of the recipe."""
    judged: list[Episode] = field(default_factory=list)
    """Episodes with those rewards and a reward model's, for credit."""
    components: dict[str, dict[str, float]] = field(default_factory=dict)
    """Reward that each component of the recipe's rewards brought, by learner."""
    batches: dict[str, Batch] = field(default_factory=dict)
    """Rows of each learner that has something to learn from."""
    learners: dict[str, dict[str, float]] = field(default_factory=dict)
    """Metrics of each learner."""
    run: dict[str, float] = field(default_factory=dict)
    """Metrics of the run."""
    players: dict[str, str] = field(default_factory=dict)
    """Agent id -> learner, of the versions that learn from the episodes."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by phase since the last record; snapshot and checkpoint are the update before's."""
    trained_tokens: int = 0
    """Reply tokens of rows that learners stepped on, once per pass."""
    last: bool = False
    """Whether no update follows, as far as is known when a phase runs."""
    checkpointed: bool = False
    """Whether a checkpoint holds it."""
    score: float | None = None
    """Mean points per game of the learners in this update's look, if there was one."""

    @property
    def whole(self) -> list[Episode]:
        """Episodes from their start, which say how learners play; branches begin where they were left."""
        return [episode for episode in self.episodes if episode.spec.branch is None]


class Phase(ABC):
    """One part of an update; it holds only what it needs of the run."""

    @classmethod
    @abstractmethod
    def of(cls, parts: Parts) -> Self:
        """The phase of a run."""

    @abstractmethod
    def __call__(self, update: Update) -> None:
        """Read what earlier phases left in the update, and leave what later ones need."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Play(Phase):
    """Play for all learners, or take what another process played for this update."""

    start_states: int
    group_size: int
    learners: Sequence[str]
    league: League
    matches: Matches
    ahead: SharedMatches | None
    """Matches of another process, if it plays."""
    survival: Survival

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        rollout = parts.recipe.rollout
        return cls(
            start_states=rollout.start_states,
            group_size=rollout.group_size,
            learners=tuple(parts.learners),
            league=parts.league,
            matches=parts.matches,
            ahead=parts.ahead,
            survival=parts.survival,
        )

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        if self.ahead is None:
            self._play(update)
        else:
            self._take(update, self.ahead)
        self.league.report(update.episodes)
        collapse = self.survival.collapse
        for finding in collapse.observe(
            update.number, update.episodes, update.players, last=update.last
        ):
            self.survival.meet(finding)
        played = (*update.episodes, *(update.branches or ()))
        tokens = sum(sum(e.result().tokens) for e in played)
        update.run |= {
            "tokens_per_s": tokens / max(update.run["generate_s"], 1e-9),
            "void": float(sum(not e.valid for e in update.episodes)),
        }

    def _play(self, update: Update) -> None:
        """Play with the versions that are installed."""
        specs = self._specs(update.number)
        update.players = {self.league.live(name): name for name in self.learners}
        started = time.monotonic()
        update.episodes = self.matches.play_to_learn(f"update {update.number}: playing", specs)
        update.run["generate_s"] = time.monotonic() - started

    def _specs(self, number: int) -> list[MatchSpec]:
        """Matches of an update that the budgets of guests allow."""

        def drawn() -> list[MatchSpec]:
            return self.league.training_matches(number - 1, self.start_states, self.group_size)

        budgets = self.matches.budgets
        return drawn() if budgets is None else budgets.draw(drawn, self.league.gone)

    def _take(self, update: Update, ahead: SharedMatches) -> None:
        taken = ahead.take(update.number)
        update.episodes, update.players = taken.episodes, taken.players
        update.branches = taken.branches
        update.run |= taken.metrics
        try:
            self.matches.keep_learned(update.episodes)
            self.matches.keep_learned(update.branches)
        except SandboxError:
            ahead.give_back(update.number)
            raise


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch(Phase):
    """Answer decisions of the learners again, and play on from there; the branches join the episodes."""

    forking: Forking | None
    """Plays the branches of the recipe's forks, if it has any."""
    matches: Matches

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(forking=parts.forking, matches=parts.matches)

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        if self.forking is None:
            return
        branches = update.branches
        if branches is None:
            branches = self._play(update, self.forking)
        update.episodes = [*update.episodes, *branches]
        update.run |= {
            "forks/branches": float(len(branches)),
            "forks/tokens": float(sum(sum(e.result().tokens) for e in branches)),
        }

    def _play(self, update: Update, forking: Forking) -> list[Episode]:
        started = time.monotonic()
        branches = forking.play(
            update.episodes,
            update.players,
            partial(self.matches.play_to_learn, f"update {update.number}: branches"),
            self.matches.covered,
        )
        update.run["forks_s"] = time.monotonic() - started
        return branches


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge(Phase):
    """Value the episodes by the recipe's rewards, and let a reward model add its opinion."""

    learners: int
    """Number of learners."""
    rewards: RewardsByGame | None
    learned_reward: LearnedReward | None
    view: ConsoleView

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(
            learners=len(parts.learners),
            rewards=parts.rewards,
            learned_reward=parts.learned_reward,
            view=parts.view,
        )

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        self.view.phase(f"update {update.number}: training", self.learners)
        live = update.players
        update.valued = update.episodes
        if self.rewards is not None:
            update.valued, components = self.rewards.judged(update.episodes, live)
            update.components = {live[agent]: values for agent, values in components.items()}
        update.judged = update.valued
        if self.learned_reward is not None:
            update.judged, metrics = self.learned_reward.judged(update.valued, live)
            update.run |= metrics


@dataclass(frozen=True, kw_only=True, slots=True)
class Credit(Phase):
    """Turn rewards into every learner's rows, before any weights move."""

    bases: Sequence[LoadedBase]
    learners: Learners
    experience: Mapping[str, Experience]
    exchange: RolloutExchange | None
    league: League
    idle: IdleLearners
    survival: Survival
    memory: PhaseManager
    has_forks: bool
    max_staleness: int | None
    """Most steps that a row may be old; no limit if absent."""

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(
            bases=parts.bases,
            learners=parts.learners,
            experience=parts.experience,
            exchange=parts.exchange,
            league=parts.league,
            idle=parts.idle,
            survival=parts.survival,
            memory=parts.memory,
            has_forks=parts.forking is not None,
            max_staleness=None if parts.ahead is None else parts.ahead.max_staleness,
        )

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        if self.exchange is not None:
            self.exchange.observe(update.number, update.judged, update.players)
        for base in self.bases:
            with self.memory.phase(phase_on("credit", base.settings.folder)):
                for name in base.settings.learners:
                    self._credit(update, name)
        self._note_shares(update)
        self.idle.say(update.number, update.learners, set(update.batches))
        self._skip_stale(update)

    def _note_shares(self, update: Update) -> None:
        """What the curriculum makes of the scores so far, where there is a choice."""
        lessons = self.league.lessons
        if len(self.league.arenas.arms) == 1:
            return
        for name, values in update.learners.items():
            values |= {f"game/{game}/share": share for game, share in lessons.shares(name).items()}
            values |= {f"game/{game}/level": level for game, level in lessons.levels(name).items()}

    def _credit(self, update: Update, name: str) -> None:
        """One learner's rows and metrics."""
        live = next(agent for agent, player in update.players.items() if player == name)
        batch, metrics = self.experience[name].batch(name, update.judged, live)
        if "reward" in metrics and (update.judged is not update.episodes or self.has_forks):
            metrics["reward"] = rule_reward(update.whole, live)
        if isinstance(batch, TrainingBatch):
            batch, ages = of_age(batch, self.learners[name].version, self.max_staleness)
            metrics |= ages
        if self.exchange is not None:
            batch, exchanged = self.exchange.extend(name, batch)
            metrics |= exchanged
        metrics |= reward_statistics(update.whole, live)
        update.learners[name] = metrics | update.components.get(name, {})
        if batch is not None:
            update.batches[name] = batch

    def _skip_stale(self, update: Update) -> None:
        """Answer batches whose rows are too old on average."""
        for name, values in update.learners.items():
            lag = values.get("version_lag", 0.0)
            if lag > STALE_ABOVE:
                message = f"rows are {lag:.1f} steps old on average, more than {STALE_ABOVE:g}"
                finding = Finding(fault="rollouts_stale", message=message, learner=name)
                if self.survival.meet(finding) == "skip_batch":
                    update.batches.pop(name, None)
                    values["skipped"] = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Step(Phase):
    """Take the optimizer steps; then learn from others and teach the reward model."""

    steps: Steps
    seats_every: int
    """Updates from one measurement of each seat's gradient to the next; 0: never."""
    versions: LeagueVersions
    learners: Learners
    learned_reward: LearnedReward | None
    sharing: Sharing | None
    survival: Survival
    memory: PhaseManager
    devices: Sequence[torch.device]

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        looks = parts.recipe.evaluation
        return cls(
            steps=Steps.of(parts),
            seats_every=looks.every if looks.seat_gradients else 0,
            versions=parts.versions,
            learners=parts.learners,
            learned_reward=parts.learned_reward,
            sharing=parts.sharing,
            survival=parts.survival,
            memory=parts.memory,
            devices=devices_of(parts.bases),
        )

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        started, live = time.monotonic(), update.players
        self.versions.withdraw()
        metrics, update.trained_tokens = self.steps.take(
            update.batches,
            update.learners,
            by_seat=_due(update.number, self.seats_every),
        )
        update.run |= metrics
        if self.learned_reward is not None:
            with self.memory.phase("reward learning"):
                update.run |= self.learned_reward.learn(update.valued, live)
        if self.sharing is not None:
            with self.memory.phase("sharing"):
                read = self.sharing.after_update(update.number, update.valued, live)
            for name, values in read.items():
                update.learners[name] |= values
        for name, learner in self.learners.items():
            values = update.learners[name]
            values["weight_norm"] = learner.weight_norm
            signs = self.survival.signs
            for finding in signs.after_update(update.number, name, values, learner.weight_norm):
                self.survival.meet(finding)
        update.run["train_s"] = time.monotonic() - started
        update.run["memory/allocated_gb"] = sum(map(allocated_gb, self.devices))


@dataclass(frozen=True, kw_only=True, slots=True)
class Count(Phase):
    """Count what the update spent; the one in which a limit is reached is the last."""

    spending: Spending

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(spending=parts.spending)

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        tokens = sum(sum(episode.result().tokens) for episode in update.episodes)
        update.run |= self.spending.count(tokens, update.trained_tokens)
        update.last |= bool(self.spending.reached)


@dataclass(frozen=True, kw_only=True, slots=True)
class Publish(Phase):
    """Name the new versions and install them: from now on they play."""

    versions: LeagueVersions

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(versions=parts.versions)

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        started = time.monotonic()
        self.versions.publish()
        update.run["publish_s"] = time.monotonic() - started


@dataclass(frozen=True, kw_only=True, slots=True)
class Look(Phase):
    """Measure the new versions, where the recipe asks for a look after this update."""

    every: int
    """Updates from one look to the next; 0: none before the end."""
    evaluation: Evaluation

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(every=parts.recipe.evaluation.every, evaluation=Evaluation.of(parts))

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        if _due(update.number, self.every):
            update.score = self.evaluation.look(update.number, update.learners)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report(Phase):
    """Send the update's metrics to all sinks."""

    updates: int
    """Updates of the whole run."""
    survival: Survival
    rollouts: Rollouts
    meter: SystemMeter

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(
            updates=parts.recipe.updates,
            survival=parts.survival,
            rollouts=parts.matches.rollouts,
            meter=parts.meter,
        )

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        update.run |= self.survival.faults
        prompts = self.rollouts.take_prompt_tokens()
        update.run |= self.meter.measure(update.seconds, update.batches, prompts)
        record = Record(
            update=update.number, updates=self.updates, run=update.run, learners=update.learners
        )
        for sink in update.sinks:
            sink.write(record)


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot(Phase):
    """Freeze versions as opponents, where it is time."""

    every: int
    learners: Sequence[str]
    versions: LeagueVersions

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(
            every=parts.recipe.snapshot_every,
            learners=tuple(parts.learners),
            versions=parts.versions,
        )

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        if update.last or _due(update.number, self.every):
            for name in self.learners:
                self.versions.snapshot(name, update.number, last=update.last)


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteCheckpoint(Phase):
    """Write what the run can go on from, where it is time."""

    recipe: LeagueRecipe
    folder: Path
    state: RunState
    memory: PhaseManager
    ahead: SharedMatches | None

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """See `Phase`."""
        return cls(
            recipe=parts.recipe,
            folder=parts.folder,
            state=RunState.of(parts),
            memory=parts.memory,
            ahead=parts.ahead,
        )

    def __call__(self, update: Update) -> None:
        """See `Phase`."""
        if update.last or _due(update.number, self.recipe.checkpoint_every):
            gathered = self.state.gather(update.number, update.score)
            gathered.write(self.recipe, self.folder, whole=self.memory.write_down)
            update.checkpointed = True
            if self.ahead is not None:
                self.ahead.acknowledge(update.number)


def _due(update: int, every: int) -> bool:
    """Whether what comes every so many updates comes in this one; with 0 it never does."""
    return every > 0 and update % every == 0


PHASES: Mapping[str, type[Phase]] = {
    "play": Play,
    "branch": Branch,
    "judge": Judge,
    "credit": Credit,
    "update": Step,
    "count": Count,
    "publish": Publish,
    "look": Look,
    "report": Report,
    "snapshot": Snapshot,
    "checkpoint": WriteCheckpoint,
}
"""Phases in the order in which they run."""
