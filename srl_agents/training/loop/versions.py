"""Versions of the learners of a run: named, published, stored, frozen, dropped, started again.

Nothing plays under a name whose weights move: a learner's own adapter is never sampled from. What plays
is a version that was published after a step and installed on the engine, until it is withdrawn.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from srl_agents import checkpoints
from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.agents.contents import chat_contents, contents_of
from srl_agents.agents.prompt_file import Examples, read_prompt, write_prompt
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.league.agents import lineage
from srl_agents.league.matchmaking.manager import BOT, League
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.models.digests import tensors_sha256, version_of
from srl_agents.models.probe import logprobs_under, probe_tokens
from srl_agents.recipes.sections.games import bots_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightUpdate, WeightVersion, label_of
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.training.bases import PlayingBase, site_of
from srl_agents.training.folder.layout import SNAPSHOTS, link_label
from srl_agents.training.loop.promotion_gate import Play, PromotionGate
from srl_envs.errors import CheckpointError

_MEND = "Restore it from a backup, or start the run in another folder."


class LeagueVersions:
    """Keeps policies, engine, store and the league's pool in step.

    Make it before a checkpoint is loaded: it notes the weights that exploiters go back to.

    Args:
        recipe: of the run.
        league: whose pool it is.
        learners: by name.
        bases: have the learners' adapters, and what samples them.
        sampling: of the engines.
        wait: runs what engines are asked for, in their event loop.
        store: learns of every version that plays.
        folder: of the run; adapters are saved below it.
        policies: agent id -> policy; kept up to date.
        drawn_as: agent id -> what its random numbers belong to; kept up to date. Labels, so that
            weights that differ in rounding draw the same.
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
        bases: Sequence[PlayingBase],
        sampling: SamplingSettings,
        wait: Callable[[Coroutine[Any, Any, None]], None],
        store: LeagueStore,
        folder: Path,
        policies: dict[str, Policy],
        drawn_as: dict[str, str],
        play: Play,
        say: Callable[[str], None],
        shown: Mapping[str, Examples],
    ) -> None:
        self.recipe, self.league, self.learners = recipe, league, learners
        self._bases, self._wait = bases, wait
        self._sites = {name: site_of(bases, name) for name in learners}
        self.store, self.folder = store, folder
        self.policies, self._drawn_as = policies, drawn_as
        self._play, self._say, self._shown = play, say, shown
        policies |= {base.name: ModelPolicy(base.engine) for base in bases}
        for bot in bots_of(recipe.games):
            policies[f"{BOT}{bot}"] = ScriptedPolicy(bot)
        self._first = {
            name: (learner.base.adapter_tensors(name), learner.state())
            for name, learner in learners.items()
            if league.roles[name] != "main"
        }
        self._gate: PromotionGate | None = None
        if recipe.promotion is not None:
            self._gate = PromotionGate(league, recipe.promotion, play)
        self._known = {agent.agent_id for agent in store.agents()}
        env_id = recipe.games[0].env_id
        self._contents = {
            base.name: contents_of(base.model, None, sampling, env_id) for base in bases
        }
        """Contents of each base as it is without an adapter."""
        self._start_of = {name: base.name for name, base in self._sites.items()}
        """Learner -> name of its base."""
        self.installed: dict[str, WeightUpdate] = {}
        """Agent id -> where its weights are, of all versions that may play."""
        self._add_anchors()

    def _site(self, learner: str) -> PlayingBase:
        """The base of a learner, also of one of another run."""
        return self._sites.get(learner) or site_of(self._bases, learner)

    # --- live versions -----------------------------------------------------------------------

    def publish(self) -> None:
        """Name the present weights of all learners, install them, and tell league and store."""
        for name in self.learners:
            self._publish(name)

    def withdraw(self) -> None:
        """Retire the live versions, because their learners' weights are about to change.

        Those in the pool stay: they have tensors of their own.
        """
        for name in self.learners:
            self._withdraw(name)

    def _publish(self, name: str) -> None:
        learner, shown = self.learners[name], self._shown.get(name, ())
        tensors = learner.base.trainable_parameters(name)
        version = version_of(name, learner.version, tensors, shown)
        previous, self.league.versions[name] = self.league.versions[name], version
        if str(version) not in self.policies:
            logprobs = self._logprobs(name, name)
            self._install(version, tensors, previous, shown, logprobs)
        self._add(name)

    def _withdraw(self, name: str) -> None:
        version = self.league.versions[name]
        if str(version) not in self.league.past:
            self._retire(str(version))

    def _install(
        self,
        version: WeightVersion,
        tensors: Mapping[str, torch.Tensor],
        previous: WeightVersion | None,
        shown: Examples,
        logprobs: tuple[float, ...],
    ) -> None:
        site = self._site(version.learner)
        update = site.transport.publish(version, tensors, previous, shown)
        update = replace(update, logprobs=logprobs)
        self._wait(site.engine.install(update))
        self.installed[str(version)] = update
        self._seat(version, shown)

    def _logprobs(self, learner: str, weights: str) -> tuple[float, ...]:
        """Log-probabilities of the probe with weights on a learner's base, where its engine compares them."""
        site = self._site(learner)
        if not site.settings.engine.is_compared:
            return ()
        return logprobs_under(site.model, weights, probe_tokens(site.model.chat))

    def _seat(self, version: WeightVersion, shown: Examples) -> None:
        """Let an installed version play."""
        self.policies[str(version)] = ModelPolicy(
            self._site(version.learner).engine, version, shown
        )
        self._drawn_as[str(version)] = version.label

    def _retire(self, version: str) -> None:
        self.policies.pop(version, None)
        self._drawn_as.pop(version, None)
        self.installed.pop(version, None)
        found = WeightVersion.parse(version)
        site = self._site(found.learner)
        self._wait(site.engine.retire(found))
        site.transport.release(found)

    # --- frozen versions ---------------------------------------------------------------------

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
        passed, reason = self._gate.passes(learner)
        self._say(f"gate: {reason}")
        if passed:
            self.league.promote(learner)
        if passed or due:
            self._freeze(learner, done)

    def load_frozen(self) -> None:
        """Load the versions of the league's pool, after a checkpoint.

        Raises:
            CheckpointError: one is gone or damaged.
        """
        for version in self.league.past:
            if version in self.league.starts:
                continue
            if not self._folder_of(version).is_dir():
                raise CheckpointError(
                    f"{self._folder_of(version)} is missing; the league needs it to continue. {_MEND}"
                )
            self._load(version)

    def _freeze(self, learner: str, done: int) -> None:
        """Save the learner's adapter under its version and let the league use it as an opponent."""
        frozen, dropped = self.league.freeze(learner, done)
        folder = self._folder_of(frozen)
        if not folder.is_dir() or checkpoints.changed_files(folder):
            temporary = folder.with_name(f"{folder.name}.tmp")
            shutil.rmtree(temporary, ignore_errors=True)
            site = self._site(learner)
            site.model.save_adapter(learner, temporary)
            shown = self._shown.get(learner, ())
            write_prompt(temporary, site.settings.prompt.followed_by(shown))
            shutil.rmtree(folder, ignore_errors=True)
            checkpoints.keep_frozen(temporary, folder)
        link_label(self.folder, WeightVersion.parse(frozen))
        self._load(frozen)
        for version in dropped:
            self._retire(version)
        if pairs := self.league.opponents.payoff_pairs:
            specs = self.league.evaluation.payoffs(frozen, self.league.past, pairs)
            self.league.report(self._play(f"payoffs of {label_of(frozen)}", specs))

    def _load(self, agent: str) -> None:
        """Let a version of the pool play what its folder holds.

        Whole weights stay on disk until a batch needs them; a live one was an alias of the learner's.
        """
        folder, version = self._folder_of(agent), WeightVersion.parse(agent)
        site = self._site(version.learner)
        base, whole = site.model, site.settings.parameters == "full"
        if agent in self.policies and not whole:
            return
        checkpoints.check_frozen(folder, _MEND)
        if agent in self.policies:
            self._retire(agent)
        prompt = read_prompt(folder)
        own = prompt.pairs[len(site.settings.prompt.examples) :]  # the recipe's are the base's
        base.load_frozen(agent, folder)
        tensors = base.adapter_tensors(agent)
        found = version_of(version.learner, version.number, tensors, own)
        if found != version:
            raise CheckpointError(
                f"{folder} holds weights with digest {found.digest}, which are those of another "
                f"version. {_MEND}"
            )
        if whole:
            self._seat(version, own)
        else:
            logprobs = self._logprobs(version.learner, agent)
            base.forget(agent)
            self._install(version, tensors, None, own, logprobs)

    def _start_again(self, learner: str) -> None:
        """Back to the first weights, under a version of its own: the frozen one keeps its id."""
        weights, (tensors, state) = self._first[learner]
        number = self.learners[learner].version + 1
        self._withdraw(learner)
        self.learners[learner].base.set_adapter_tensors(learner, weights)
        self.learners[learner].load_state(tensors, state)
        self.learners[learner].version = number
        self._publish(learner)
        label = self.league.versions[learner].label
        self._say(f"{learner} starts again from its first weights as {label}")

    def _folder_of(self, version: str) -> Path:
        return self.folder / SNAPSHOTS / version

    # --- the store ---------------------------------------------------------------------------

    def _add(self, learner: str) -> None:
        """Make the learner's present version known to the store."""
        version = self.league.versions[learner]
        if str(version) in self._known:  # of this run, perhaps before it was interrupted
            return
        self.store.add_agent(
            AgentVersion(
                agent_id=str(version),
                lineage=lineage(str(version)),
                parent=self.league.start_of(learner),
                role=self.league.roles[learner],
                step=version.number,
                spec=self._contents_of(learner),
            )
        )
        self._known.add(str(version))

    def _add_anchors(self) -> None:
        """Add the learners' starts and the bots, which anchor the ratings."""
        for base in self._bases:
            if base.name not in self._known:
                self.store.add_agent(
                    AgentVersion(
                        agent_id=base.name,
                        lineage=base.name,
                        role="anchor",
                        spec=self._contents[base.name],
                    )
                )
        for bot, games in bots_of(self.recipe.games).items():
            self.store.add_agent(
                AgentVersion(
                    agent_id=f"{BOT}{bot}",
                    lineage=f"{BOT}{bot}",
                    role="heldout" if bot == "held_out" else "anchor",
                    spec={"bot": bot, "env": games},
                )
            )

    def _contents_of(self, learner: str) -> dict[str, Any]:
        """Those of its base, with its present weights and the examples in its prompt."""
        site = self._site(learner)
        examples = self._shown.get(learner, ())
        return {
            **self._contents[self._start_of[learner]],
            "adapter": tensors_sha256(site.model.adapter_tensors(learner)),
            **(chat_contents(site.model.chat, examples) if examples else {}),
        }
