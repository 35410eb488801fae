"""Run a league recipe: play, credit, update, snapshot, evaluate; crash and resume at any moment.

The loop holds no randomness of its own: matches come from the league by number, tokens from
(seed, match, seat, turn). Training again from a checkpoint therefore repeats what was lost.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents import checkpoints
from srl_agents.credit.batches import training_batch
from srl_agents.credit.group_relative import role_advantages
from srl_agents.engines.base_model import BaseModel, Prompt
from srl_agents.engines.transformers_engine import SamplingSettings, TransformersEngine
from srl_agents.league.manager import BOT, Arena, League
from srl_agents.league.store import AgentVersion, LeagueStore
from srl_agents.metrics import ConsoleView, JSONLines, Record, Sink, TensorBoard
from srl_agents.policies import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.recipes.folder import check_folder, write_recipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.rollouts import Runner
from srl_agents.trainers.grpo import GRPOLearner
from srl_envs import spec as env_spec
from srl_envs.errors import CheckpointError, ConfigError, SandboxError
from srl_envs.registry import count_seats

STORE, METRICS = "league.db", "metrics.jsonl"
FINAL = "eval/final"


class LeagueTraining:
    """One run in one folder.

    Args:
        recipe: what to do.
        folder: of the run; made if absent. A folder that holds the same recipe is continued.
        view: shows progress.

    Raises:
        ConfigError: the folder holds a run of another recipe.
        StoreError: another process is writing to the folder.
    """

    def __init__(self, recipe: LeagueRecipe, folder: Path, view: ConsoleView) -> None:
        self.recipe, self.folder, self.view = recipe, folder, view
        check_folder(recipe, folder)
        view.phase(f"loading {recipe.model}")
        self.base = BaseModel.load(
            recipe.model,
            lora_rank=recipe.lora.rank,
            lora_alpha=recipe.lora.alpha,
            dtype=recipe.dtype,
            device=recipe.device,
            prompt=Prompt(
                system=recipe.prompt.system,
                examples=tuple((e.observation, e.reply) for e in recipe.prompt.examples),
            ),
        )
        budget = recipe.rollout.max_new_tokens
        if budget >= self.base.context_length:
            raise ConfigError(
                f"rollout.max_new_tokens={budget}: {recipe.model} reads {self.base.context_length} "
                "tokens in all, prompt and reply together."
            )
        folder.mkdir(parents=True, exist_ok=True)
        self.store = LeagueStore(folder / STORE)
        write_recipe(recipe, folder)
        arena = Arena(
            env_id=env_spec(recipe.env).id,
            options=recipe.env_options,
            seats=count_seats(recipe.env, **recipe.env_options),
        )
        self.league = League(
            arena=arena,
            learners=recipe.learners,
            start=recipe.model,
            opponents=recipe.opponents,
            seed=recipe.seed,
        )
        self.learners = {
            name: GRPOLearner(
                name,
                self.base,
                recipe.training,
                recipe.rollout.temperature,
                seed=_derived_seed(recipe.seed, name),
            )
            for name in recipe.learners
        }
        sampling = SamplingSettings(
            temperature=recipe.rollout.temperature, max_new_tokens=recipe.rollout.max_new_tokens
        )
        self.engine = TransformersEngine(
            self.base, sampling, max_batch_rows=recipe.rollout.batch_rows
        )
        self.policies: dict[str, Policy] = {recipe.model: ModelPolicy(self.engine)}
        for bot in env_spec(recipe.env).bots:
            self.policies[f"{BOT}{bot}"] = ScriptedPolicy(bot)
        self.runner = Runner(
            self.policies, root_seed=recipe.seed, concurrency=recipe.rollout.concurrency
        )
        self._add_anchors()
        self.done = self._restore()

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
                for sink in sinks:
                    sink.write(record)
                self._after_update()
            self._final_table()
        finally:
            for sink in sinks:
                sink.close()

    def close(self) -> None:
        """Give back environments and the store."""
        self.runner.close()
        self.store.close()

    # --- one update --------------------------------------------------------------------------

    def _update(self) -> Record:
        """Play for all learners, then update each in turn, on what was sampled before any moved."""
        recipe, number = self.recipe, self.done + 1
        self._name_live_policies()
        specs = self.league.training_matches(
            self.done, recipe.rollout.start_states, recipe.rollout.group_size
        )
        started = time.monotonic()
        episodes = self._play(f"update {number}: playing", specs)
        played = time.monotonic()
        self.league.observe(episodes)
        learners: dict[str, dict[str, float]] = {}
        self.view.phase(f"update {number}: training", len(self.learners))
        for name, learner in self.learners.items():
            rows, values = credit(episodes, self.league.live(name), recipe.scale_advantages)
            if rows:
                pad = self.base.tokenizer.pad_token_id
                values |= learner.update(training_batch(name, learner.version, rows, pad))
            learners[name] = values
            self.view.advance()
        trained = time.monotonic()
        for name, learner in self.learners.items():
            self.league.versions[name] = learner.version
        self.done = number
        if recipe.evaluation.every and number % recipe.evaluation.every == 0:
            self._look(learners)
        tokens = sum(sum(e.result().tokens) for e in episodes)
        run = {
            "generate_s": played - started,
            "train_s": trained - played,
            "tokens_per_s": tokens / max(played - started, 1e-9),
            "void": float(sum(not e.valid for e in episodes)),
        }
        return Record(update=number, updates=recipe.updates, run=run, learners=learners)

    def _play(self, phase: str, specs: Sequence[MatchSpec]) -> list[Episode]:
        self.view.phase(phase, len(specs))
        episodes = self.runner.play(specs, self.view.advance)
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
        self._name_live_policies()
        opponents = [self.league.start, *(f"{BOT}{bot}" for bot in evaluation.bots)]
        pairings = [
            (self.league.live(name), other) for name in self.learners for other in opponents
        ]
        specs = self.league.evaluation_matches(
            f"eval/{self.done}", pairings, range(evaluation.pairs)
        )
        episodes = self._play(f"update {self.done}: evaluating", specs)
        for name, values in learners.items():
            live = self.league.live(name)
            mine = [e for e in episodes if e.valid and live in e.spec.seats]
            for other in opponents:
                key = "score_start" if other == self.league.start else f"score_{other}"
                values[key] = _score(mine, live, other)
            values["eval_format"] = _format_of(mine, live)
            values["start_format"] = _format_of(mine, self.league.start)

    # --- versions ----------------------------------------------------------------------------

    def _name_live_policies(self) -> None:
        """Register the learners' present versions under their version ids."""
        live = {self.league.live(name): name for name in self.learners}
        for policy, name in live.items():
            # a version that is frozen already keeps its own adapter: the learner's moves on
            self.policies.setdefault(policy, ModelPolicy(self.engine, name))
            self._add_version(name)
        keep = {*live, *self.league.past, self.recipe.model}
        for policy in [p for p in self.policies if p not in keep and not p.startswith(BOT)]:
            del self.policies[policy]

    def _after_update(self) -> None:
        recipe, last = self.recipe, self.done == self.recipe.updates
        if self.done % recipe.snapshot_every == 0 or last:
            for name in self.learners:
                self._freeze(name)
        if self.done % recipe.checkpoint_every == 0 or last:
            self._checkpoint()

    def _freeze(self, learner: str) -> None:
        """Save the learner's adapter under its version and let the league use it as an opponent."""
        frozen, dropped = self.league.freeze(learner)
        folder = self._snapshot_folder(frozen)
        if not folder.is_dir():
            temporary = folder.with_name(f"{folder.name}.tmp")
            shutil.rmtree(temporary, ignore_errors=True)
            self.base.save_adapter(learner, temporary)
            checkpoints.rename_durably(temporary, folder)
        self._load_frozen(frozen)
        for version in dropped:
            self.policies.pop(version, None)
            self.base.remove_adapter(version)

    def _load_frozen(self, version: str) -> None:
        if version not in self.base.adapters:
            self.base.load_adapter(version, self._snapshot_folder(version))
        self.policies[version] = ModelPolicy(self.engine, version)

    def _snapshot_folder(self, version: str) -> Path:
        return self.folder / "snapshots" / version

    def _add_version(self, learner: str) -> None:
        """Make the learner's present version known to the store."""
        self.store.add_agent(
            AgentVersion(
                agent_id=self.league.live(learner),
                lineage=learner,
                parent=self.recipe.model,
                role="main",
                step=self.league.versions[learner],
                spec={"model": self.recipe.model, "learner": learner},
            )
        )

    def _add_anchors(self) -> None:
        """The start and the bots."""
        model = self.recipe.model
        self.store.add_agent(
            AgentVersion(agent_id=model, lineage=model, role="anchor", spec={"model": model})
        )
        for bot in env_spec(self.recipe.env).bots:
            self.store.add_agent(
                AgentVersion(
                    agent_id=f"{BOT}{bot}",
                    lineage=f"{BOT}{bot}",
                    role="heldout" if bot == "held_out" else "anchor",
                    spec={"bot": bot, "env": self.league.arena.env_id},
                )
            )

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
        self._name_live_policies()
        specs = self.league.round_robin(FINAL, agents, self.recipe.evaluation.final_pairs)
        missing = [spec for spec in specs if spec.match_id not in known]
        if missing:
            self._play("final round robin", missing)

    # --- checkpoints -------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        tensors: dict[str, Any] = {}
        state: dict[str, Any] = {"league": self.league.state(), "learners": {}}
        for name, learner in self.learners.items():
            tensors[f"{name}.adapter"] = self.base.adapter_tensors(name)
            tensors[f"{name}.optimizer"], state["learners"][name] = learner.state()
        checkpoints.save(
            self.folder / "checkpoints",
            self.done,
            tensors,
            state,
            keep=self.recipe.keep_checkpoints,
        )

    def _restore(self) -> int:
        """Load the newest whole checkpoint; returns the number of updates that it holds."""
        found = checkpoints.latest(self.folder / "checkpoints")
        if found is None:
            return 0
        checkpoint = checkpoints.load(found)
        self.league.load_state(checkpoint.state["league"])
        for name, learner in self.learners.items():
            self.base.set_adapter_tensors(name, checkpoint.tensors[f"{name}.adapter"])
            learner.load_state(
                checkpoint.tensors[f"{name}.optimizer"], checkpoint.state["learners"][name]
            )
        for version in self.league.past:
            if version == self.league.start:
                continue
            if not self._snapshot_folder(version).is_dir():
                raise CheckpointError(
                    f"{self._snapshot_folder(version)} is gone; the league needs it to continue."
                )
            self._load_frozen(version)
        self.view.say(f"resuming after update {checkpoint.step} of {self.recipe.updates}")
        return checkpoint.step


def credit(
    episodes: Sequence[Episode], policy: str, scale: bool
) -> tuple[list[tuple[Turn, float]], dict[str, float]]:
    """Group-relative advantages for all turns that ``policy`` wrote, and metrics of its play.

    A group is one start state with one set of policies; the role is the seat. Every turn of an
    episode gets the episode's advantage, except that a refused reply is never praised for a win
    that came in spite of it: where its advantage would be above 0 the turn is left out. Turns of
    flat groups, in which all attempts earned the same, carry no signal and are left out too.

    Returns:
        (turn, advantage) rows, and metrics by name.
    """
    played = [
        (episode, episode.trajectories[seat])
        for episode in episodes
        for seat in episode.spec.learner_seats
        if episode.spec.seats[seat] == policy
    ]
    if not played:
        return [], {}
    names = [(e.spec.schedule, e.spec.number) for e, _ in played]
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    group_E = np.array([number[name] for name in names])
    role_E = np.array([t.seat for _, t in played])
    returns_E = np.array([t.total_reward for _, t in played])
    valid_E = np.array([e.valid for e, _ in played])
    flat_E = _flat(returns_E, group_E, role_E, valid_E)
    advantages_E = role_advantages(returns_E, group_E, role_E, valid_E, scale=scale)
    rows = [
        (turn, float(advantage))
        for (_, trajectory), advantage, flat in zip(played, advantages_E, flat_E, strict=True)
        for turn in trajectory.turns
        if not flat and turn.completion_ids and (advantage < 0 or not turn.invalid)
    ]
    metrics = _play_metrics([(e, t) for e, t in played if e.valid])
    cells = {(g, r): flat for g, r, flat in zip(group_E, role_E, flat_E, strict=True)}
    return rows, metrics | {"rows": float(len(rows)), "flat_groups": _mean(list(cells.values()))}


def _flat(returns_E: Any, group_E: Any, role_E: Any, valid_E: Any) -> Any:
    """(E,) whether all valid attempts of an episode's (group, role) earned the same."""
    flat_E = np.ones(len(returns_E), dtype=bool)
    for i in range(len(returns_E)):
        peers_E = valid_E & (group_E == group_E[i]) & (role_E == role_E[i])
        if valid_E[i]:
            flat_E[i] = np.ptp(returns_E[peers_E]) < 1e-9
    return flat_E


def _play_metrics(played: Sequence[tuple[Episode, Trajectory]]) -> dict[str, float]:
    turns = [turn for _, trajectory in played for turn in trajectory.turns]
    return {
        "reward": _mean([t.total_reward for _, t in played]),
        "outcome": _mean([t.outcome for _, t in played]),
        "format": _mean([t.components["format"] for _, t in played]),
        "invalid_share": _mean([turn.invalid is not None for turn in turns]),
        "reply_tokens": _mean([len(turn.completion_ids) for turn in turns]),
        "unread_share": _mean([not turn.completion_ids for turn in turns]),
    }


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


def _derived_seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:4], "big")
