"""The optimizer steps of one update, as the coordinator decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents.coordination.coordinator import CoordinationGroups
from srl_agents.coordination.members import AdapterShape, Decision, Member, Tensors
from srl_agents.credit.preferences import PreferenceBatch
from srl_agents.memory.phase_manager import PhaseManager, phase_on
from srl_agents.metrics import ConsoleView
from srl_agents.models.memory.available import empty_cache
from srl_agents.recipes.sections.base_models import Base
from srl_agents.records import TrainingBatch
from srl_agents.rewards.learned_reward import LearnedReward
from srl_agents.trainers.learner import Batch, norm_of
from srl_agents.trainers.mixed_gradients import mixed_gradients
from srl_agents.trainers.prefix_sharing import worth_mixing
from srl_agents.training.bases import LoadedBase
from srl_agents.training.faults.survival import Survival
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.loop.shared_gradients import SharedGradients
from srl_agents.training.loop.stages import Parts
from srl_agents.training.parts.exchange_rounds import RolloutExchange
from srl_agents.training.parts.single import Learners
from srl_envs.errors import FaultError, MemoryLimitError

Metrics = dict[str, dict[str, float]]
"""Metrics by learner and name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Takes the optimizer steps of a run's learners."""

    learners: Learners
    bases: Sequence[LoadedBase]
    shared: SharedGradients | None
    """Computes gradients with the run's other processes, if there are any."""
    coordinator: CoordinationGroups
    exchange: RolloutExchange | None
    learned_reward: LearnedReward | None
    survival: Survival
    memory: PhaseManager
    view: ConsoleView
    halves: bool
    """Whether a pass gets half the rows where memory runs out."""

    @classmethod
    def of(cls, parts: Parts) -> Steps:
        """The steps of a run."""
        return cls(
            learners=parts.learners,
            bases=parts.bases,
            shared=SharedGradients.of_run(parts),
            coordinator=parts.coordinator,
            exchange=parts.exchange,
            learned_reward=parts.learned_reward,
            survival=parts.survival,
            memory=parts.memory,
            view=parts.view,
            halves=parts.recipe.survival.policy("out_of_memory") == "halve_micro_batch",
        )

    def take(
        self, batches: Mapping[str, Batch], learners: Metrics, *, by_seat: bool = False
    ) -> tuple[dict[str, float], int]:
        """Take all steps of one update, then combine learners' weights where the recipe asks for it.

        Args:
            batches: of the learners that have something to learn from.
            learners: metrics, which are added to.
            by_seat: whether the gradient norm of each seat's rows is measured, in passes of their own.

        Returns:
            Metrics of the run, and reply tokens of the rows that were stepped on, once per pass.
        """
        run: dict[str, float] = {}
        trained_tokens = 0
        self.view.advance(len(self.learners) - len(batches))
        steps = {name: self.learners[name].steps(batch) for name, batch in batches.items()}
        skipping: set[str] = set()
        for number in range(max(map(len, steps.values()), default=0)):
            first = number == 0
            now = {
                name: own[number]
                for name, own in steps.items()
                if number < len(own) and name not in skipping
            }
            for base in self.bases:
                own = {name: now[name] for name in base.settings.learners if name in now}
                if not own:
                    continue
                with self.memory.phase(phase_on("gradients", base.settings.folder)):
                    ready = self._weighed(own, number, learners)
                    for name in own.keys() - ready.keys():
                        del now[name]
                    if by_seat and first:
                        for name, batch in ready.items():
                            learners[name] |= self._norms_by_seat(name, batch)
                    found = self._gradients(ready)
                for name, (metrics, broken) in found.items():
                    learners[name] |= metrics
                    if first:
                        self.view.advance()
                    finding = broken or self.survival.signs.before_step(name, metrics, first=first)
                    if finding is not None and self.survival.meet(finding) == "skip_batch":
                        self.learners[name].drop_gradients()
                        del now[name]
                        skipping.add(name)
                        learners[name]["skipped"] = 1.0
            with self.memory.phase("steps"):
                decision = self.coordinator.before_step(self._members(now), first=first)
                self._step(decision)
            run |= decision.run
            _add(decision, learners)
            trained_tokens += sum(map(_tokens, now.values()))
        for name in batches.keys() - skipping:
            self.survival.stepped(name)
        self.require_equal_weights()
        return run | self._combine(batches, learners), trained_tokens

    def _weighed(self, batches: dict[str, Batch], step: int, learners: Metrics) -> dict[str, Batch]:
        """Batches of a step; with an exchange, rows of others by what they weigh in it."""
        if self.exchange is None:
            return batches
        ready, metrics = self.exchange.weighed(batches, step)
        for name, values in metrics.items():
            learners[name] |= values
        return ready

    def require_equal_weights(self) -> None:
        """Stop when the processes no longer hold the same learners.

        Raises:
            ModelError: they do not.
        """
        if self.shared is None:
            return
        judge = [] if self.learned_reward is None else [self.learned_reward.learner]
        for learner in (*self.learners.values(), *judge):
            name = learner.name
            weights = learner.base.trainable_parameters(name)
            self.shared.processes.require_equal(f"the weights of {name!r}", weights)

    def _step(self, decision: Decision) -> None:
        for name, learner in self.learners.items():
            if name in decision.changes:
                learner.set_gradients(decision.changes[name])
                learner.apply_gradients()
            else:
                learner.drop_gradients()

    def _combine(self, batches: Mapping[str, Batch], learners: Metrics) -> dict[str, float]:
        """What happens between the weights of several learners after their steps."""
        decision = self.coordinator.after_step(self._members(batches, stepped=True))
        for name, tensors in decision.changes.items():
            self.learners[name].replace_weights(tensors, reset_moments=decision.reset_moments)
        _add(decision, learners)
        self.coordinator.observe(
            {name: values["reward"] for name, values in learners.items() if "reward" in values}
        )
        return decision.run

    def _gradients(
        self, batches: Mapping[str, Batch]
    ) -> dict[str, tuple[dict[str, float], Finding | None]]:
        """Put its gradient on every learner of one base; returns each learner's metrics, or its fault."""
        if self.shared is not None:
            return self.shared.of(batches, self._gradient, self._added)
        computed = self._together(batches)
        return {
            name: computed.get(name) or self._gradient(name, batch)
            for name, batch in batches.items()
        }

    def _norms_by_seat(self, name: str, batch: Batch) -> dict[str, float]:
        """Norms of the parts of a batch's gradient that the rows of each seat give, and with several games
        those of each; no step is taken."""
        seats = batch.by_seat() if isinstance(batch, TrainingBatch) else {}
        if len(seats) < 2:
            return {}
        learner, norms = self.learners[name], {}
        games: dict[str, Tensors] = {}
        for (game, seat), rows in seats.items():
            self._added(name, batch, rows)
            place = f"game/{game}/" if game else ""
            norms[f"{place}seat{seat}/grad_norm"] = learner.gradient_norm
            if game:
                together = games.setdefault(f"{place}grad_norm", {})
                for key, own in learner.gradients.items():
                    together[key] = together[key] + own if key in together else own
        learner.drop_gradients()
        return norms | {key: norm_of(together.values()) for key, together in games.items()}

    def _together(
        self, batches: Mapping[str, Batch]
    ) -> dict[str, tuple[dict[str, float], Finding | None]]:
        """Metrics of learners that share passes; empty where one has a fault, which is answered separately.

        Raises:
            MemoryLimitError: not even one row at a time fits.
        """
        while mixed := worth_mixing(self.learners, batches):
            learners: Any = {name: self.learners[name] for name in mixed}
            try:
                metrics_of = mixed_gradients(learners, mixed)
                return {name: (metrics, None) for name, metrics in metrics_of.items()}
            except FaultError:
                for learner in learners.values():
                    learner.drop_gradients()
                return {}
            except MemoryLimitError as error:
                self._halve_rows([*mixed], error)
        return {}

    def _gradient(self, name: str, batch: Batch) -> tuple[dict[str, float], Finding | None]:
        """One learner's.

        Raises:
            MemoryLimitError: not even one row at a time fits.
        """
        try:
            return self.learners[name].checked(*self._added(name, batch, batch)), None
        except FaultError as error:
            return {}, Finding(fault=error.fault, message=str(error), learner=name)

    def _added(self, name: str, batch: Batch, share: Batch) -> tuple[float, dict[str, float]]:
        """Add one learner's gradient; in smaller parts where memory runs out, if the recipe allows it.

        Args:
            name: of the learner.
            batch: all of its rows.
            share: those of them that are read here.

        Raises:
            MemoryLimitError: not even one row at a time fits.
        """
        learner = self.learners[name]
        while True:
            learner.begin(batch)
            try:
                return learner.add_gradients(share)
            except MemoryLimitError as error:
                self._halve_rows([name], error)

    def _halve_rows(self, names: Sequence[str], error: MemoryLimitError) -> None:
        """Drop gradients and let a pass have half the rows, if the recipe allows it.

        Args:
            names: of the learners whose pass it was.
            error: why.

        Raises:
            MemoryLimitError: the error, where the recipe has another policy or one row did not fit.
        """
        learners = [self.learners[name] for name in names]
        rows = min(learner.micro_batch_rows for learner in learners)
        sharded = self.shared is not None and self.shared.sharded
        if rows == 1 or not self.halves or sharded:  # other processes wait in a layer
            raise error
        message = f"{error} (micro_batch_rows {rows} -> {rows // 2})"
        owner = names[0] if len(names) == 1 else ""
        self.survival.meet(Finding(fault="out_of_memory", message=message, learner=owner))
        for learner in learners:
            learner.micro_batch_rows = rows // 2
            learner.drop_gradients()
        empty_cache(learners[0].base.device)

    def _members(self, batches: Mapping[str, Batch], *, stepped: bool = False) -> list[Member]:
        """All learners as coordination sees them, before a step or after the last."""
        shapes = {
            name: _shape(base.settings) for base in self.bases for name in base.settings.learners
        }
        return [
            Member(
                name=name,
                shape=shapes[name],
                adapter={k: p.detach() for k, p in learner.base.trainable_parameters(name).items()},
                gradients=learner.gradients if name in batches and not stepped else None,
                rows=batches[name].rows if name in batches else 0,
            )
            for name, learner in self.learners.items()
        ]


def _add(decision: Decision, learners: Metrics) -> None:
    for name, values in decision.learners.items():
        learners[name] |= values


def _tokens(batch: Batch) -> int:
    """Tokens that a step learns from; 0 where the kind of batch does not say it."""
    if isinstance(batch, TrainingBatch | PreferenceBatch):
        return int(batch.extent.tokens)
    return 0


def _shape(base: Base) -> AdapterShape:
    if base.parameters == "full":
        return AdapterShape(base=base.model, rank=None)
    return AdapterShape(
        base=base.model, rank=base.lora.rank, scaling=base.lora.alpha / base.lora.rank
    )
