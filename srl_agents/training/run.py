"""Run a league recipe: play, credit, update, snapshot, evaluate; crash and resume at any moment.

The loop holds no randomness of its own: matches come from the league by number, tokens from
(seed, match, seat, turn). Training again from a checkpoint therefore repeats what was lost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents import checkpoints
from srl_agents.coordination.members import AdapterShape, Member, Tensors
from srl_agents.coordination.processes import Processes
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.token_weights import Teaching
from srl_agents.league.manager import BOT, FINAL
from srl_agents.league.store import LeagueStore
from srl_agents.metrics import ConsoleView, JSONLines, Record, Sink, TensorBoard
from srl_agents.metrics.play import reward_statistics
from srl_agents.metrics.sinks import METRICS
from srl_agents.metrics.trackers import Tracker, require_trackers
from srl_agents.models.device_memory import allocated_gb
from srl_agents.recipes.environment import require_played
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec
from srl_agents.rewards.learned_reward import rule_reward
from srl_agents.rollouts import Finished, Rollouts
from srl_agents.rollouts.counterfactual import Replays
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from srl_agents.trainers.learner import Batch
from srl_agents.training.adapter_export import AdapterExport
from srl_agents.training.parts import (
    load_base,
    make_engine,
    make_league,
    make_learned_reward,
    make_learners,
    make_recipe_rewards,
    make_sharing,
    seeds_of,
)
from srl_agents.training.run_folder import CHECKPOINTS, RECIPE, check_folder, write_recipe
from srl_agents.training.tracking import begin_trackers, keep_run_id, run_id
from srl_agents.training.versions import LeagueVersions
from srl_agents.training.warm_start import warm_start
from srl_envs.episode import Transcript
from srl_envs.errors import CheckpointError, SandboxError

STORE = "league.db"
COORDINATION = "coordination"
"""Group of a checkpoint's tensors."""
_EXPORTED = {"lora": "adapter", "full": "model"}
"""What a run calls the folders that it leaves behind."""


class LeagueTraining:
    """One run in one folder.

    Args:
        recipe: what to do.
        folder: of the run; made if absent. A folder that holds the same recipe is continued.
        view: shows progress.
        processes: that share the work; this one alone if absent. All but the first get a folder of
            their own that holds what the first one's did.

    Raises:
        ConfigError: the folder holds a run of another recipe, or a tracker does not begin.
        StoreError: another process is writing to the folder, or its matches are lost.
        ModelError: the processes have different weights.
    """

    def __init__(
        self,
        recipe: LeagueRecipe,
        folder: Path,
        view: ConsoleView,
        processes: Processes | None = None,
    ) -> None:
        self.recipe, self.folder, self.view = recipe, folder, view
        self.processes = processes or Processes()
        self._opened = ExitStack()
        try:
            self._begin()
        except BaseException:  # the store is free for whoever mends what was wrong
            self.close()
            raise

    def _begin(self) -> None:
        """Build all parts and go to the newest checkpoint."""
        recipe, folder, view = self.recipe, self.folder, self.view
        require_trackers(recipe.report_to)
        check_folder(recipe, folder)
        require_played(recipe.env, recipe.match_options, recipe.bots)
        continued = (folder / RECIPE).is_file()
        if continued:
            self._open_store()  # before a tracker takes up what another process is sending
        self.trackers: list[Tracker] = []
        own = run_id(folder)
        if self.processes.first:
            for tracker in begin_trackers(recipe, folder, own):
                self._opened.callback(tracker.close)
                self.trackers.append(tracker)
        view.phase(f"loading {recipe.model}")
        self.base = load_base(recipe)
        check_folder(recipe, folder)  # again: loading leaves time for another run to begin in it
        folder.mkdir(parents=True, exist_ok=True)
        write_recipe(recipe, folder)  # first: a folder with anything else and no recipe is no run
        if recipe.report_to:
            keep_run_id(folder, own)
        if not continued:
            self._open_store()
        self.league = make_league(recipe)
        seeds = seeds_of(recipe)
        warm_start(recipe, self.base, seeds, folder, view)
        self.learners = make_learners(recipe, self.base, seeds)
        self.replays = Replays()
        self._opened.callback(self.replays.close)
        self.sharing = make_sharing(recipe, self.base, self.learners, seeds)
        self.rewards = make_recipe_rewards(recipe)
        self.learned_reward = make_learned_reward(recipe, self.base)
        self.credit = CreditAssigner(
            recipe.credit,
            scale=recipe.scale_advantages,
            teams=recipe.teams,
            replayed=self.replays.outcomes,
        )
        self.coordinator = recipe.coordination.make_coordinator()
        self.experience = recipe.training.make_experience(
            self.learners, self.credit, self._teaching
        )
        self.engine = make_engine(recipe, self.base)
        self._shown = {} if self.sharing is None else self.sharing.shown
        self.versions = LeagueVersions(
            recipe,
            self.league,
            self.learners,
            engine=self.engine,
            store=self.store,
            folder=folder,
            play=self._play,
            say=view.say,
            shown=self._shown,
        )
        self.policies = self.versions.policies
        self.runner = Rollouts(
            self.policies, root_seed=recipe.seed, concurrency=recipe.rollout.concurrency
        )
        self._opened.callback(self.runner.close)
        self._idle: dict[str, str] = {}
        self._score: float | None = None
        """Mean points per game of the learners in this update's look, if there was one."""
        self.done = self._restore()
        self._require_equal_weights()

    def _open_store(self) -> None:
        counted_on = checkpoints.exist(self.folder / CHECKPOINTS)
        self.store = LeagueStore(self.folder / STORE, "continue" if counted_on else "write")
        self._opened.callback(self.store.close)

    def run(self) -> None:
        """Train to the end and play the final round robin; continues where a checkpoint left off."""
        self.view.resume(self.done)
        sinks: list[Sink] = [
            JSONLines(self.folder / METRICS, self.done),
            TensorBoard(self.folder / "tensorboard", self.done),
            self.view,
        ]
        try:
            while self.done < self.recipe.updates:
                record = self._update()
                for sink in (*sinks, *self.trackers):
                    sink.write(record)
                self._after_update()
            self._final_table()
            live = {name: self.league.live(name) for name in self.learners}
            export = AdapterExport(
                self.recipe, self.folder, self.base, self.store, shown=self._shown
            )
            for path in export.write(live):
                self.view.say(f"{_EXPORTED[self.recipe.parameters]}: {path}")
        finally:
            for sink in sinks:
                sink.close()

    def close(self) -> None:
        """Give back environments and the store; end trackers."""
        self._opened.close()

    # --- one update --------------------------------------------------------------------------

    def _update(self) -> Record:
        """Play for all learners, then update each in turn, on what was sampled before any moved."""
        recipe, number = self.recipe, self.done + 1
        self._score = None
        self.versions.name_live()
        specs = self.league.training_matches(
            self.done, recipe.rollout.start_states, recipe.rollout.group_size
        )
        started = time.monotonic()
        episodes = self._play(f"update {number}: playing", specs)
        played = time.monotonic()
        self.league.report(episodes)
        self.view.phase(f"update {number}: training", len(self.learners))
        policies = {self.league.live(name): name for name in self.learners}
        valued, components = episodes, dict[str, dict[str, float]]()
        if self.rewards is not None:
            valued, components = self.rewards.judged(episodes, policies)
        judged, told = valued, dict[str, float]()
        if self.learned_reward is not None:
            judged, told = self.learned_reward.judged(valued, policies)
        batches, learners = self._batches(episodes, judged)
        for policy, values in components.items():
            learners[policies[policy]] |= values
        self._tell_idle(number, {n: v for n, v in learners.items() if n not in batches})
        run = self._train(batches, learners) | told
        if self.learned_reward is not None:
            run |= self.learned_reward.learn(valued, policies)
        if self.sharing is not None:
            for name, values in self.sharing.after_update(number, valued, policies).items():
                learners[name] |= values
        trained = time.monotonic()
        for name, learner in self.learners.items():
            self.league.versions[name] = learner.version
        self.done = number
        if recipe.evaluation.every and number % recipe.evaluation.every == 0:
            self._look(learners)
        tokens = sum(sum(e.result().tokens) for e in episodes)
        run |= {
            "generate_s": played - started,
            "train_s": trained - played,
            "tokens_per_s": tokens / max(played - started, 1e-9),
            "void": float(sum(not e.valid for e in episodes)),
            "memory/allocated_gb": allocated_gb(self.base.device),
        }
        return Record(update=number, updates=recipe.updates, run=run, learners=learners)

    def _batches(
        self, episodes: Sequence[Episode], judged: Sequence[Episode]
    ) -> tuple[dict[str, Batch], dict[str, dict[str, float]]]:
        """Every learner's rows, and metrics of its play. Nobody's weights move before all are made.

        Args:
            episodes: as the game paid them, for metrics.
            judged: as the recipe's rewards and a reward model value them, for credit.
        """
        batches: dict[str, Batch] = {}
        learners: dict[str, dict[str, float]] = {}
        for name in self.learners:
            live = self.league.live(name)
            batch, learners[name] = self.experience.batch(name, judged, live)
            if judged is not episodes and "reward" in learners[name]:
                learners[name]["reward"] = rule_reward(episodes, live)
            learners[name] |= reward_statistics(episodes, live)
            if batch is not None:
                batches[name] = batch
        return batches, learners

    def _train(
        self, batches: dict[str, Batch], learners: dict[str, dict[str, float]]
    ) -> dict[str, float]:
        """Take the steps of one update as the coordinator decides; adds to learners' metrics.

        Returns:
            Metrics of the run.
        """
        run: dict[str, float] = {}
        self.view.advance(len(self.learners) - len(batches))
        steps = {name: self.learners[name].steps(batch) for name, batch in batches.items()}
        for number in range(max(map(len, steps.values()), default=0)):
            now = {name: own[number] for name, own in steps.items() if number < len(own)}
            for name, metrics in self._gradients(now).items():
                learners[name] |= metrics
                if number == 0:
                    self.view.advance()
            members = self._members(now, stepped=False)
            decision = self.coordinator.before_step(members, first=number == 0)
            for name, learner in self.learners.items():
                if name in decision.changes:
                    learner.set_gradients(decision.changes[name])
                    learner.apply_gradients()
                else:
                    learner.drop_gradients()
            run |= decision.run
            for name, values in decision.learners.items():
                learners[name] |= values
        self._require_equal_weights()
        decision = self.coordinator.after_step(self._members(batches, stepped=True))
        for name, tensors in decision.changes.items():
            self.learners[name].replace_weights(tensors, reset_moments=decision.reset_moments)
        for name, values in decision.learners.items():
            learners[name] |= values
        self.coordinator.observe(
            {name: values["reward"] for name, values in learners.items() if "reward" in values}
        )
        return run | decision.run

    def _gradients(self, batches: dict[str, Batch]) -> dict[str, dict[str, float]]:
        """Put its gradient on every learner that has a batch; returns what they say of it.

        Each process computes those of some learners, and hears of the others.
        """
        computed: dict[str, tuple[dict[str, float], Tensors]] = {}
        for name in [n for i, n in enumerate(batches) if self.processes.mine(i)]:
            metrics = self.learners[name].compute_gradients(batches[name])
            computed[name] = (metrics, {})
            if self.processes.size > 1:
                computed[name] = (metrics, self.learners[name].exported_gradients())
        told = {
            name: found for part in self.processes.gather(computed) for name, found in part.items()
        }
        for name in batches:
            if name not in computed:
                self.learners[name].import_gradients(told[name][1])
        return {name: told[name][0] for name in batches}

    def _tell_idle(self, number: int, idle: dict[str, dict[str, float]]) -> None:
        """Say why learners bring no gradient, when they begin not to."""
        reasons = {name: _why_idle(values) for name, values in idle.items()}
        for name, reason in reasons.items():
            if self._idle.get(name) != reason:
                does = "takes no step"
                if self.recipe.coordination.stays_equal and len(idle) < len(self.learners):
                    does = "adds nothing to the others' step"
                self.view.say(f"update {number}: {name} {does}: {reason}.")
        self._idle = reasons

    def _require_equal_weights(self) -> None:
        """Stop when the processes no longer hold the same learners.

        Raises:
            ModelError: they do not.
        """
        judge = [] if self.learned_reward is None else [self.learned_reward.learner.name]
        for name in (*self.learners, *judge):
            weights = self.base.trainable_parameters(name)
            self.processes.require_equal(f"the weights of {name!r}", weights)

    def _teaching(self, learner: str) -> Teaching | None:
        return self.coordinator.teaching(learner, list(self.learners))

    def _members(self, batches: dict[str, Batch], *, stepped: bool) -> list[Member]:
        lora, shape = self.recipe.lora, AdapterShape(base=self.recipe.model, rank=None)
        if self.recipe.parameters == "lora":
            shape = replace(shape, rank=lora.rank, scaling=lora.alpha / lora.rank)
        return [
            Member(
                name=name,
                shape=shape,
                adapter={
                    key: p.detach() for key, p in self.base.trainable_parameters(name).items()
                },
                gradients=learner.gradients if name in batches and not stepped else None,
                rows=batches[name].rows if name in batches else 0,
            )
            for name, learner in self.learners.items()
        ]

    def _play(
        self, phase: str, specs: Sequence[MatchSpec], finished: Finished | None = None
    ) -> list[Episode]:
        mine = [spec for number, spec in enumerate(specs) if self.processes.mine(number)]
        self.view.phase(phase, len(mine))
        alone = self.processes.size == 1
        ended: list[tuple[Episode, Transcript]] = []

        def keep(episode: Episode, transcript: Transcript) -> None:
            ended.append((episode, transcript))

        played = self.runner.play(mine, self.view.advance, finished if alone else keep)
        episodes = self.processes.interleave(played)
        if finished is not None and not alone:
            for episode, transcript in (
                match for part in self.processes.gather(ended) for match in part
            ):
                finished(episode, transcript)
        self.store.report_many((episode.spec, episode.result()) for episode in episodes)
        void = [episode for episode in episodes if not episode.valid]
        if 2 * len(void) > len(episodes):
            raise SandboxError(
                f"{len(void)} of {len(episodes)} episodes could not be finished, the first with: "
                f"{void[0].fault}. Mend that and start again; the run continues from its checkpoint."
            )
        return episodes

    def _look(self, learners: dict[str, dict[str, float]]) -> None:
        """Measure the live versions against the start and the bots, on eval seeds."""
        evaluation = self.recipe.evaluation
        self.versions.name_live()
        opponents = [self.league.start, *(f"{BOT}{bot}" for bot in evaluation.bots)]
        pairings = [
            (self.league.live(name), other) for name in self.learners for other in opponents
        ]
        specs = self.league.evaluation_matches(
            f"eval/{self.done}", pairings, range(evaluation.pairs)
        )
        episodes = self._play(f"update {self.done}: evaluating", specs)
        self.league.report(episodes)
        for name, values in learners.items():
            live = self.league.live(name)
            mine = [e for e in episodes if e.valid and live in e.spec.seats]
            for other in opponents:
                key = "score_start" if other == self.league.start else f"score_{other}"
                values[key] = _score(mine, live, other)
            values["eval_format"] = _format_of(mine, live)
            values["start_format"] = _format_of(mine, self.league.start)
        self._score = _mean([v[k] for v in learners.values() for k in v if k.startswith("score_")])

    def _after_update(self) -> None:
        recipe, last = self.recipe, self.done == self.recipe.updates
        if self.done % recipe.snapshot_every == 0 or last:
            for name in self.learners:
                self.versions.snapshot(name, self.done, last=last)
        if self.done % recipe.checkpoint_every == 0 or last:
            self._checkpoint()

    # --- the end -----------------------------------------------------------------------------

    def _final_table(self) -> None:
        """Every final version, the start and the bots, all against all on fresh eval seeds."""
        agents = [self.league.start, *map(self.league.live, self.learners)]
        agents += [f"{BOT}{bot}" for bot in self.recipe.evaluation.bots]
        known = {
            spec.match_id
            for spec, result in self.store.matches(schedule=FINAL)
            if result.termination != "void"
        }
        self.versions.name_live()
        specs = self.league.round_robin(FINAL, agents, self.recipe.evaluation.final_pairs)
        missing = [spec for spec in specs if spec.match_id not in known]
        if missing:
            log = TranscriptLog(self.folder / TRANSCRIPTS)
            self._play("final round robin", missing, log.add)

    # --- checkpoints -------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        tensors: dict[str, Any] = {}
        state: dict[str, Any] = {
            "league": self.league.state(),
            "learners": {},
            "credit": self.credit.state(),
        }
        shared, state["coordination"] = self.coordinator.state()
        if shared:
            tensors[COORDINATION] = shared
        if self.sharing is not None:
            groups, state["sharing"] = self.sharing.state()
            tensors |= groups
        if self.learned_reward is not None:
            groups, state["reward_model"] = self.learned_reward.state()
            tensors |= groups
        for name, learner in self.learners.items():
            own = self.base.trainable_parameters(name)
            tensors[f"{name}.adapter"] = {key: tensor.detach() for key, tensor in own.items()}
            tensors[f"{name}.optimizer"], state["learners"][name] = learner.state()
        checkpoints.save(
            self.folder / CHECKPOINTS,
            self.done,
            tensors,
            state,
            keep=self.recipe.keep_checkpoints,
            score=self._score,
            keep_best=self.recipe.keep_best_checkpoints,
        )

    def _restore(self) -> int:
        """Load the newest whole checkpoint; returns the number of updates that it holds."""
        found = checkpoints.latest(self.folder / CHECKPOINTS)
        if found is None:
            return 0
        checkpoint = checkpoints.load(found)
        try:
            self._take_over(checkpoint)
        except KeyError as error:
            raise CheckpointError(
                f"{found} was written by an older SRL and has no {error}: finish the run with that "
                "version, or start it in another folder."
            ) from error
        self.versions.load_frozen()
        self.view.say(f"resuming after update {checkpoint.step} of {self.recipe.updates}")
        return checkpoint.step

    def _take_over(self, checkpoint: checkpoints.Checkpoint) -> None:
        """Be where the checkpoint was written."""
        self.league.load_state(checkpoint.state["league"])
        for name, learner in self.learners.items():
            self.base.set_adapter_tensors(name, checkpoint.tensors[f"{name}.adapter"])
            learner.load_state(
                checkpoint.tensors[f"{name}.optimizer"], checkpoint.state["learners"][name]
            )
        self.credit.load_state(checkpoint.state["credit"])
        self.coordinator.load_state(
            checkpoint.tensors.get(COORDINATION, {}),
            checkpoint.state["coordination"],
            like=dict(self.base.trainable_parameters(self.recipe.learners[0])),
        )
        if self.sharing is not None:
            self.sharing.load_state(checkpoint.tensors, checkpoint.state["sharing"])
        if self.learned_reward is not None:
            self.learned_reward.load_state(checkpoint.tensors, checkpoint.state["reward_model"])


def _why_idle(values: Mapping[str, float]) -> str:
    """What the metrics of a learner's play say about why there is nothing to learn from."""
    if not values:
        return "it played no valid episode"
    if values.get("unread_share") == 1:
        return "no prompt fitted the model's context"
    refused = values.get("invalid_share") == 1
    reason = "all of its replies were refused, and " if refused else ""
    if values.get("pairs") == 0:
        return f"{reason}no two replies to one prompt differed in worth"
    if values.get("flat_groups") == 1:
        return f"{reason}all attempts at each start state earned the same"
    return f"{reason}nothing that it played can be learned from"


def _score(episodes: Sequence[Episode], policy: str, opponent: str) -> float:
    """Points per game of ``policy`` against ``opponent``."""
    points = []
    for episode in episodes:
        if opponent not in episode.spec.seats:
            continue
        mine = next(t for t in episode.trajectories if t.policy == policy)
        theirs = next(t for t in episode.trajectories if t.policy == opponent)
        points.append((1 + np.sign(mine.outcome - theirs.outcome)) / 2)
    return _mean(points)


def _format_of(episodes: Sequence[Episode], policy: str) -> float:
    """Mean format component of ``policy``."""
    seats = [t for e in episodes for t in e.trajectories if t.policy == policy]
    return _mean([t.components["format"] for t in seats])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
