"""One update of a league run: named phases in a fixed order, each of which reads what earlier ones left.

``play`` matches, ``branch`` them where the recipe has forks, ``judge`` the episodes, ``credit`` them,
``update`` the weights, ``publish`` the new versions, ``look`` at them on eval seeds, ``report`` the metrics,
take a ``snapshot``, write a ``checkpoint``. A phase changes the parts and the `Update`, and calls no other
phase.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from srl_agents.metrics import Record, Sink
from srl_agents.metrics.reward_statistics import reward_statistics
from srl_agents.models.memory.available import allocated_gb
from srl_agents.recipes.sections.fault_policy import STALE_ABOVE
from srl_agents.records import Episode, TrainingBatch
from srl_agents.rewards.learned_reward import rule_reward
from srl_agents.trainers.learner import Batch
from srl_agents.training.ahead.orders import MatchesAhead
from srl_agents.training.bases import devices_of
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.loop import evaluation, state
from srl_agents.training.loop.row_ages import of_age
from srl_agents.training.loop.stages import Parts
from srl_agents.training.loop.step import take_steps
from srl_agents.training.parts.memory_roles import phase_on
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
    score: float | None = None
    """Mean points per game of the learners in this update's look, if there was one."""

    @property
    def whole(self) -> list[Episode]:
        """Episodes from their start, which say how learners play; branches begin where they were left."""
        return [episode for episode in self.episodes if episode.spec.branch is None]


Phase = Callable[[Parts, Update], None]


def play(parts: Parts, update: Update) -> None:
    """Play for all learners, or take what another process played for this update."""
    if parts.ahead is None:
        _play_now(parts, update)
    else:
        _take(parts, update, parts.ahead)
    parts.league.report(update.episodes)
    last = update.number == parts.recipe.updates
    collapse = parts.survival.collapse
    for finding in collapse.observe(update.number, update.episodes, update.players, last=last):
        parts.survival.meet(finding)
    tokens = sum(sum(e.result().tokens) for e in update.episodes)
    update.run |= {
        "tokens_per_s": tokens / max(update.run["generate_s"], 1e-9),
        "void": float(sum(not e.valid for e in update.episodes)),
    }


def branch(parts: Parts, update: Update) -> None:
    """Answer decisions of the learners again, and play on from there; the branches join the episodes."""
    if parts.forking is None:
        return
    started = time.monotonic()
    branches = parts.forking.play(
        update.episodes,
        update.players,
        lambda specs, parents: parts.matches.play(
            f"update {update.number}: branches", specs, parents=parents
        ),
    )
    update.episodes = [*update.episodes, *branches]
    update.run |= {
        "forks/branches": float(len(branches)),
        "forks/tokens": float(sum(sum(e.result().tokens) for e in branches)),
        "forks_s": time.monotonic() - started,
    }


def _play_now(parts: Parts, update: Update) -> None:
    """Play an update's matches with the versions that are installed."""
    rollout = parts.recipe.rollout
    specs = parts.matches.budgets.draw(
        lambda: parts.league.training_matches(
            update.number - 1, rollout.start_states, rollout.group_size
        ),
        parts.league.gone,
    )
    update.players = {parts.league.live(name): name for name in parts.learners}
    started = time.monotonic()
    update.episodes = parts.matches.play(f"update {update.number}: playing", specs)
    update.run["generate_s"] = time.monotonic() - started


def _take(parts: Parts, update: Update, ahead: MatchesAhead) -> None:
    taken = ahead.take(update.number)
    update.episodes, update.players = taken.episodes, taken.players
    update.run |= taken.metrics
    try:
        parts.matches.keep(update.episodes)
    except SandboxError:
        ahead.give_back(update.number)
        raise


def judge(parts: Parts, update: Update) -> None:
    """Value the episodes by the recipe's rewards, and let a reward model add its opinion."""
    parts.view.phase(f"update {update.number}: training", len(parts.learners))
    live = update.players
    update.valued = update.episodes
    if parts.rewards is not None:
        update.valued, components = parts.rewards.judged(update.episodes, live)
        update.components = {live[agent]: values for agent, values in components.items()}
    update.judged = update.valued
    if parts.learned_reward is not None:
        update.judged, metrics = parts.learned_reward.judged(update.valued, live)
        update.run |= metrics


def credit(parts: Parts, update: Update) -> None:
    """Turn rewards into every learner's rows, before any weights move."""
    if parts.exchange is not None:
        parts.exchange.observe(update.number, update.judged, update.players)
    for base in parts.bases:
        with parts.memory.phase(phase_on("credit", base.settings.folder)):
            for name in base.settings.learners:
                _credit(parts, update, name)
    _note_shares(parts, update)
    parts.idle.say(update.number, update.learners, set(update.batches))
    _skip_stale(parts, update)


def _note_shares(parts: Parts, update: Update) -> None:
    """What the curriculum makes of the scores so far, where there is a choice."""
    lessons = parts.league.lessons
    if len(parts.league.arenas.arms) == 1:
        return
    for name, values in update.learners.items():
        values |= {f"game/{game}/share": share for game, share in lessons.shares(name).items()}
        values |= {f"game/{game}/level": level for game, level in lessons.levels(name).items()}


def _credit(parts: Parts, update: Update, name: str) -> None:
    """One learner's rows and metrics."""
    learner = parts.learners[name]
    live = next(agent for agent, player in update.players.items() if player == name)
    batch, metrics = parts.experience[name].batch(name, update.judged, live)
    if "reward" in metrics and (update.judged is not update.episodes or parts.forking is not None):
        metrics["reward"] = rule_reward(update.whole, live)
    if isinstance(batch, TrainingBatch):
        most = None if parts.ahead is None else parts.ahead.max_staleness
        batch, ages = of_age(batch, learner.version, most)
        metrics |= ages
    if parts.exchange is not None:
        batch, exchanged = parts.exchange.extend(name, batch)
        metrics |= exchanged
    metrics |= reward_statistics(update.whole, live)
    update.learners[name] = metrics | update.components.get(name, {})
    if batch is not None:
        update.batches[name] = batch


def _skip_stale(parts: Parts, update: Update) -> None:
    """Answer batches whose rows are too old on average."""
    for name, values in update.learners.items():
        lag = values.get("version_lag", 0.0)
        if lag > STALE_ABOVE:
            message = f"rows are {lag:.1f} steps old on average, more than {STALE_ABOVE:g}"
            finding = Finding(fault="rollouts_stale", message=message, learner=name)
            if parts.survival.meet(finding) == "skip_batch":
                update.batches.pop(name, None)
                values["skipped"] = 1.0


def step(parts: Parts, update: Update) -> None:
    """Take the optimizer steps; then learn from others and teach the reward model."""
    started, live = time.monotonic(), update.players
    parts.versions.withdraw()
    update.run |= take_steps(parts, update.batches, update.learners)
    if parts.learned_reward is not None:
        with parts.memory.phase("reward learning"):
            update.run |= parts.learned_reward.learn(update.valued, live)
    if parts.sharing is not None:
        with parts.memory.phase("sharing"):
            read = parts.sharing.after_update(update.number, update.valued, live)
        for name, values in read.items():
            update.learners[name] |= values
    for name, learner in parts.learners.items():
        values = update.learners[name]
        values["weight_norm"] = learner.weight_norm
        signs = parts.survival.signs
        for finding in signs.after_update(update.number, name, values, learner.weight_norm):
            parts.survival.meet(finding)
    update.run["train_s"] = time.monotonic() - started
    update.run["memory/allocated_gb"] = sum(map(allocated_gb, devices_of(parts.bases)))


def publish(parts: Parts, update: Update) -> None:
    """Name the new versions and install them: from now on they play."""
    started = time.monotonic()
    parts.versions.publish()
    update.run["publish_s"] = time.monotonic() - started


def look(parts: Parts, update: Update) -> None:
    """Measure the new versions, where the recipe asks for a look after this update."""
    every = parts.recipe.evaluation.every
    if every and update.number % every == 0:
        update.score = evaluation.look(parts, update.number, update.learners)


def report(parts: Parts, update: Update) -> None:
    """Tell everybody who listens."""
    update.run |= parts.survival.faults
    prompts = parts.matches.rollouts.take_prompt_tokens()
    update.run |= parts.meter.measure(update.seconds, update.batches, prompts)
    record = Record(
        update=update.number,
        updates=parts.recipe.updates,
        run=update.run,
        learners=update.learners,
    )
    for sink in update.sinks:
        sink.write(record)


def snapshot(parts: Parts, update: Update) -> None:
    """Freeze versions as opponents, where it is time."""
    last = update.number == parts.recipe.updates
    if last or update.number % parts.recipe.snapshot_every == 0:
        for name in parts.learners:
            parts.versions.snapshot(name, update.number, last=last)


def checkpoint(parts: Parts, update: Update) -> None:
    """Write what the run can go on from, where it is time."""
    last = update.number == parts.recipe.updates
    if last or update.number % parts.recipe.checkpoint_every == 0:
        gathered = state.gather(parts, update.number, update.score)
        gathered.write(parts.recipe, parts.folder, whole=parts.memory.write_down)
        if parts.ahead is not None:
            parts.ahead.acknowledge(update.number)


PHASES: Mapping[str, Phase] = {
    "play": play,
    "branch": branch,
    "judge": judge,
    "credit": credit,
    "update": step,
    "publish": publish,
    "look": look,
    "report": report,
    "snapshot": snapshot,
    "checkpoint": checkpoint,
}
"""Phases in the order in which they run."""
