"""Versions of the learners of a run: named, told to the store, frozen, dropped, started again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from srl_agents import checkpoints
from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.agents.prompt_file import Examples, read_prompt, write_prompt
from srl_agents.engines.transformers_engine import TransformersEngine
from srl_agents.league.manager import BOT, League
from srl_agents.league.store import AgentVersion, LeagueStore
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.training.contents import contents_of
from srl_agents.training.promotion_gate import Play, PromotionGate
from srl_envs import spec as env_spec
from srl_envs.errors import CheckpointError

_MEND = "Restore it from a backup, or start the run in another folder."


class LeagueVersions:
    """Keeps policies, adapters, the store and the league's pool in step.

    Make it before a checkpoint is loaded: it notes the weights that exploiters go back to.

    Args:
        recipe: of the run.
        league: whose pool it is.
        learners: by name.
        engine: what model policies sample with.
        store: learns of every version that plays.
        folder: of the run; adapters are saved below it.
        play: plays matches and stores them, for gates and payoffs.
        say: shows a line.
        shown: learner -> examples in its prompts, as they are at any moment.
    """

    def __init__(
        self,
        recipe: LeagueRecipe,
        league: League,
        learners: dict[str, AdapterLearner[Any]],
        *,
        engine: TransformersEngine,
        store: LeagueStore,
        folder: Path,
        play: Play,
        say: Callable[[str], None],
        shown: Mapping[str, Examples],
    ) -> None:
        self.recipe, self.league, self.learners = recipe, league, learners
        self.engine, self.base, self.store = engine, engine.base, store
        self.folder, self._play, self._say = folder, play, say
        self._shown = shown
        self.policies: dict[str, Policy] = {recipe.model: ModelPolicy(engine)}
        for bot in env_spec(recipe.env).bots:
            self.policies[f"{BOT}{bot}"] = ScriptedPolicy(bot)
        self._first = {
            name: (self.base.adapter_tensors(name), learner.state())
            for name, learner in learners.items()
            if league.roles[name] != "main"
        }
        self._gate: PromotionGate | None = None
        if recipe.promotion is not None:
            anchors = [recipe.model, *(f"{BOT}{bot}" for bot in recipe.evaluation.bots)]
            self._gate = PromotionGate(league, recipe.promotion, anchors, play)
        self._known = {agent.agent_id for agent in store.agents()}
        self._add_anchors()

    def name_live(self) -> None:
        """Register the learners' present versions under their version ids."""
        live = {self.league.live(name): name for name in self.learners}
        for policy, name in live.items():
            # a version that is frozen already keeps its own adapter: the learner's moves on
            examples = self._shown.get(name, ())
            self.policies.setdefault(policy, ModelPolicy(self.engine, name, examples))
            self._add(name)
        keep = {*live, *self.league.past, self.recipe.model}
        for policy in [p for p in self.policies if p not in keep and not p.startswith(BOT)]:
            del self.policies[policy]

    def snapshot(self, learner: str, done: int, *, last: bool) -> None:
        """Freeze a version that earned it or waited long enough; exploiters then start again.

        Args:
            learner: whose version.
            done: updates so far.
            last: the run ends, so freeze whatever there is.
        """
        due = last or self.league.overdue(learner, done, self.recipe.snapshot_every)
        if self.league.roles[learner] != "main":
            if due or self.league.beats_mains(learner):
                self._freeze(learner, done)
                if not last and self.league.starts_again(learner):
                    self._start_again(learner)
            return
        if self._gate is None:
            self._freeze(learner, done)
            return
        self.name_live()
        passed, reason = self._gate.passes(learner)
        self._say(f"gate: {reason}")
        if passed:
            self.league.promote(learner)
        if passed or due:
            self._freeze(learner, done)

    def load_frozen(self) -> None:
        """Load the adapters of the league's pool, after a checkpoint.

        Raises:
            CheckpointError: one is gone or damaged.
        """
        for version in self.league.past:
            if version == self.league.start:
                continue
            if not self._folder_of(version).is_dir():
                raise CheckpointError(
                    f"{self._folder_of(version)} is gone; the league needs it to continue. {_MEND}"
                )
            self._load(version)

    def _freeze(self, learner: str, done: int) -> None:
        """Save the learner's adapter under its version and let the league use it as an opponent."""
        # whoever starts again at once never plays under this id as a live version
        self._add(learner)
        frozen, dropped = self.league.freeze(learner, done)
        folder = self._folder_of(frozen)
        if not folder.is_dir() or checkpoints.changed_files(folder):
            temporary = folder.with_name(f"{folder.name}.tmp")
            shutil.rmtree(temporary, ignore_errors=True)
            self.base.save_adapter(learner, temporary)
            shown = self._shown.get(learner, ())
            write_prompt(temporary, self.recipe.prompt.followed_by(shown))
            shutil.rmtree(folder, ignore_errors=True)
            checkpoints.keep_frozen(temporary, folder)
        self._load(frozen)
        for version in dropped:
            self.policies.pop(version, None)
            self.base.forget(version)
        if self.league.opponents.payoff_pairs:
            self.name_live()
            episodes = self._play(f"payoffs of {frozen}", self.league.payoff_matches(frozen))
            self.league.report(episodes)

    def _load(self, version: str) -> None:
        folder = self._folder_of(version)
        if version not in self.base.frozen:
            checkpoints.check_frozen(folder, _MEND)
            self.base.load_frozen(version, folder)
        prompt = read_prompt(folder)
        own = prompt.pairs[len(self.recipe.prompt.examples) :]  # the recipe's are the base's
        self.policies[version] = ModelPolicy(self.engine, version, own)

    def _start_again(self, learner: str) -> None:
        """Back to the first weights, under a version of its own: the frozen one keeps its id."""
        weights, (tensors, state) = self._first[learner]
        self.base.set_adapter_tensors(learner, weights)
        version = self.learners[learner].version + 1
        self.learners[learner].load_state(tensors, state)
        self.learners[learner].version = self.league.versions[learner] = version
        self._say(f"{learner} starts again from its first weights as {self.league.live(learner)}")

    def _folder_of(self, version: str) -> Path:
        return self.folder / "snapshots" / version

    def _add(self, learner: str) -> None:
        """Make the learner's present version known to the store."""
        version = self.league.live(learner)
        if version in self._known:  # of this run, perhaps before it was interrupted
            return
        self.store.add_agent(
            AgentVersion(
                agent_id=version,
                lineage=learner,
                parent=self.recipe.model,
                role=self.league.roles[learner],
                step=self.league.versions[learner],
                spec=self._contents(learner),
            )
        )
        self._known.add(version)

    def _add_anchors(self) -> None:
        """The start and the bots."""
        model = self.recipe.model
        if model not in self._known:
            self.store.add_agent(
                AgentVersion(
                    agent_id=model, lineage=model, role="anchor", spec=self._contents(None)
                )
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

    def _contents(self, adapter: str | None) -> dict[str, Any]:
        env_id = self.league.arena.env_id
        examples = () if adapter is None else self._shown.get(adapter, ())
        return contents_of(self.base, adapter, self.engine.sampling, env_id, examples)
