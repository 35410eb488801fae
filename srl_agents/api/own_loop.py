"""`srl_agents.Learner`: the parts of one update, for a training loop of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np

import srl_envs
from srl_agents.agents.players import ModelPolicy, Policy
from srl_agents.agents.resolver import EngineKey, Playing, close_engines, find, require_model, seat
from srl_agents.agents.text_players import ModelPlayer
from srl_agents.api.text_agent import Agent
from srl_agents.credit.batches import training_batch
from srl_agents.credit.crediting import Credited
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import Generation, SamplingSettings
from srl_agents.engines.tasks import within
from srl_agents.interrupts import EventLoop
from srl_agents.models.base_model import BaseModel
from srl_agents.models.prompt import EarlierTurn
from srl_agents.records import Episode, MatchSpec, TrainingBatch, Turn, WeightVersion
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.branches import branch_spec
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import ConfigError, ModelError
from srl_envs.reading.settings import build

Rows = Credited | TrainingBatch | Sequence[tuple[Turn, float]]
"""What `Learner.update` learns from: a result of `credit`, a batch, or (turn, advantage) rows."""
_REPLY_S = 600.0
"""For one reply of an agent, and for the end of the engines."""


class Learner(AbstractContextManager["Learner"]):
    """One LoRA adapter on a frozen base model, which plays and learns in this process.

    Close it, or use it as a context manager. Equal arguments and equal calls give equal results.
    """

    def __init__(
        self,
        base: BaseModel,
        name: str,
        settings: GRPOSettings,
        sampling: SamplingSettings,
        *,
        shape: tuple[int, float],
        seed: int,
    ) -> None:
        """Take over a loaded base; `load` is the usual way in.

        Args:
            base: has the adapter ``name``, or gets a new one.
            name: of the learner, an identifier.
            settings: of the updates.
            sampling: of replies.
            shape: rank of the adapter, and alpha: updates are multiplied by alpha / rank.
            seed: root of all randomness.
        """
        self.name, self.settings, self.seed = name, settings, seed
        self._base, self._shape = base, shape
        self._learner = settings.make_learner(
            name, base, temperature=sampling.temperature, seed=seed
        )
        self._engine = TransformersEngine(base, sampling)
        self._loop = EventLoop()
        self._guests: dict[tuple[str, str], Policy] = {}
        """(Environment, name) -> an opponent that is loaded."""
        self._lent: set[WeightVersion] = set()
        """Versions that agents play."""
        self._groups = 0
        """Start states so far."""
        self._closed = False
        self._version = base.freeze_adapter(name, 0)

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        name: str = "learner",
        adapter: str | Path | None = None,
        rank: int = 8,
        alpha: float = 16.0,
        learning_rate: float | None = None,
        training: GRPOSettings | None = None,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        seed: int = 0,
        device: str = "auto",
        **settings: Any,
    ) -> Learner:
        """Load a model and add an adapter to it that changes nothing yet.

        Args:
            model: ``tiny``, ``smollm2-135m``, a hub id, or a local folder.
            name: of the learner, an identifier.
            adapter: folder of a saved adapter to go on from, of the same rank and alpha.
            rank: of the LoRA factors, 1 or more.
            alpha: LoRA scale; updates are multiplied by alpha / rank.
            learning_rate: of the optimizer, which multiplies its steps, more than 0; 1e-3 if absent.
            training: all settings of the updates at once, in the place of ``learning_rate`` and
                ``settings``.
            max_new_tokens: most tokens per reply, 1 or more.
            temperature: divides the logits of sampling, more than 0.
            seed: root of all randomness: adapter, start states, sampled tokens.
            device: ``cpu``, ``cuda``, or ``auto``.
            settings: fields of `GRPOSettings`, such as ``kl_coef=0.02`` or ``variant="dapo"``.

        Raises:
            ConfigError: a setting is unknown or impossible.
            UnknownPolicyError: no model has this name.
            ModelError: the model or the adapter cannot be loaded.
        """
        own = settings if learning_rate is None else {**settings, "learning_rate": learning_rate}
        if training is not None and own:
            raise ConfigError(
                f"Learner.load: training and {', '.join(own)}: give one GRPOSettings, or its fields."
            )
        if training is None:
            training = build(GRPOSettings, {"learning_rate": 1e-3, **own}, "Learner.load")
        WeightVersion(name, 0, "0" * 16)  # refuses what is not an identifier
        if not temperature > 0:
            raise ConfigError(f"temperature={temperature}: use more than 0 to learn from play.")
        sampling = SamplingSettings(max_new_tokens=max_new_tokens, temperature=temperature)
        require_model(str(model))
        base = BaseModel.load(model, lora_rank=rank, lora_alpha=alpha, device=device)
        if adapter is not None:
            base.load_adapter(name, Path(adapter))
        return cls(base, name, training, sampling, shape=(rank, float(alpha)), seed=seed)

    @property
    def version(self) -> WeightVersion:
        """The weights that play now."""
        return self._version

    # --- play --------------------------------------------------------------------------------

    def play(
        self,
        env: str,
        *,
        env_options: Mapping[str, Any] | None = None,
        opponents: Mapping[int, str] | None = None,
        start_states: int = 4,
        group_size: int = 8,
    ) -> list[Episode]:
        """Play groups of matches with the present weights; later calls get other start states.

        Args:
            env: registered environment id.
            env_options: of `srl_envs.make`.
            opponents: seat number -> bot or other agent, written as for `srl play`; the learner holds all
                other seats and learns in each.
            start_states: groups to play, 1 or more.
            group_size: matches per start state, 1 or more; credit compares them.

        Returns:
            One episode per match, group by group. An episode that our machinery lost is ``void``, and
            credit leaves it out.

        Raises:
            UnknownEnvironmentError: no environment has this id.
            UnknownPolicyError: no bot or model has an opponent's name.
            ConfigError: a number or an option is impossible, or a seat does not exist.
            ModelError: a model cannot be loaded, or the learner is closed.
        """
        self._require_open()
        for label, count in (("start_states", start_states), ("group_size", group_size)):
            if count < 1:
                raise ConfigError(f"{label}={count}: use 1 or more.")
        options = dict(env_options or {})
        env_id = srl_envs.spec(env).id
        with closing(srl_envs.make(env_id, **options)) as made:
            seats = len(made.possible_agents)
        others = dict(opponents or {})
        _check_seats(env_id, seats, others)
        policies: dict[str, Policy] = {str(self._version): self._policy()}
        names = {number: self._guest(env_id, name, policies) for number, name in others.items()}
        agents = tuple(names.get(number, str(self._version)) for number in range(seats))
        specs = [
            spec
            for _ in range(start_states)
            for spec in self._group(env_id, options, agents, frozenset(others), group_size)
        ]
        with self._rollouts(policies) as rollouts:
            return rollouts.play(specs)

    def fork(
        self,
        episode: Episode,
        decision: int,
        *,
        alternatives: int = 4,
        joint: bool = False,
        chances: Literal["parent", "fresh"] = "parent",
    ) -> list[Episode]:
        """Answer a decision of a match anew, and play on from there with the present weights.

        `srl_agents.credit` with ``level="turn"`` and an estimator such as ``c3`` compares the branches with
        the match that they leave; pass it both.

        Args:
            episode: of `play` or `fork`, before the next update.
            decision: `Turn.turn_index` of the reply that is given anew.
            alternatives: replies to the decision, that of the match among them; 2 or more.
            joint: whether all seats on move in that step answer anew.
            chances: whether random events from there on are those of the match, or drawn anew.

        Returns:
            One branch less than there are alternatives.

        Raises:
            ConfigError: the match was lost, has no such decision, or others than the learner as it is now and
                its opponents played it.
            ModelError: the learner is closed.
        """
        self._require_open()
        if alternatives < 2:
            raise ConfigError(
                f"alternatives={alternatives}: use 2 or more; one of them is the match's."
            )
        spec = episode.spec
        policies: dict[str, Policy] = {str(self._version): self._policy()}
        policies |= {
            name: self._guests[spec.env_id, name]
            for name in spec.seats
            if (spec.env_id, name) in self._guests
        }
        strangers = [name for name in spec.seats if name not in policies]
        if strangers:
            raise ConfigError(
                f"fork: {strangers[0]} played this match, and {self._version} plays now: replies of two are "
                "not alternatives. Fork what `play` returned, before the next update."
            )
        branches = [
            branch_spec(episode, decision, alternative=k, joint=joint, chances=chances)
            for k in range(1, alternatives)
        ]
        with self._rollouts(policies) as rollouts:
            return rollouts.play(branches, parents={spec.match_id: episode})

    def _rollouts(self, policies: Mapping[str, Policy]) -> Rollouts:
        return Rollouts(
            policies,
            root_seed=self.seed,
            contents={str(self._version): self._version.label},
            loop=self._loop,
        )

    def _group(
        self,
        env_id: str,
        options: dict[str, Any],
        agents: tuple[str, ...],
        others: frozenset[int],
        size: int,
    ) -> list[MatchSpec]:
        """Attempts at the next start state; they share everything but their number."""
        number, self._groups = self._groups, self._groups + 1
        seed = int(np.random.default_rng([self.seed, number]).integers(2**31))
        return [
            MatchSpec(
                env_id=env_id,
                options=options,
                seed=seed,
                split="train",
                seats=agents,
                learner_seats=tuple(k for k in range(len(agents)) if k not in others),
                purpose="agent" if others else "self",
                cluster=f"train/{seed}",
                schedule=f"train/{self.name}",
                number=number,
                attempt=attempt,
            )
            for attempt in range(size)
        ]

    def _guest(self, env_id: str, name: str, policies: dict[str, Policy]) -> str:
        """Add an opponent to the policies; returns its agent id."""
        candidate = find(name, env_id)
        agent = str(candidate.name)
        if (env_id, agent) not in self._guests:
            key = EngineKey(self._base.name, self._shape, self._base.prompt)
            playing = Playing(
                env_id=env_id, sampling=self._engine.sampling, device=str(self._base.device)
            )
            (seated,) = seat({agent: candidate}, playing, {key: self._engine}).values()
            self._guests[env_id, agent] = seated.policy
        policies[agent] = self._guests[env_id, agent]
        return agent

    # --- learn -------------------------------------------------------------------------------

    def update(self, rows: Rows) -> dict[str, float]:
        """Take the optimizer steps of one batch; from then on the new weights play.

        Args:
            rows: what to learn from. Without rows, as where all groups are flat, no step is taken.

        Returns:
            Metrics by the names in `srl_agents.metrics.MEANINGS`: those of `credit`, ``stepped`` (1 or 0),
            and after a step ``loss``, ``grad_norm`` and others of the algorithm.

        Raises:
            ConfigError: the rows are another learner's.
            ShapeError: a turn has no tokens, or another learner wrote it.
            FaultError: the loss or a gradient is not finite.
            MemoryLimitError: the batch does not fit into memory.
            ModelError: the learner is closed.
        """
        self._require_open()
        metrics = dict(rows.metrics) if isinstance(rows, Credited) else {}
        batch = self._batch(rows)
        if batch is None:
            return {**metrics, "rows": 0.0, "stepped": 0.0}
        metrics |= {"rows": float(batch.rows), **self._learner.update(batch), "stepped": 1.0}
        before, number = self._version, self._learner.version
        self._version = self._base.freeze_adapter(self.name, number)
        if before != self._version and before not in self._lent:
            self._loop.run(self._engine.retire(before))
        return metrics

    def _batch(self, rows: Rows) -> TrainingBatch | None:
        """The rows as a batch; None where there are none."""
        if isinstance(rows, Credited):
            if rows.learner != self.name:
                raise ConfigError(
                    f"update: rows of {rows.learner!r} cannot train {self.name!r}; credit its own episodes."
                )
            rows = rows.rows
        if isinstance(rows, TrainingBatch):
            return rows
        if not rows:
            return None
        return training_batch(self.name, rows, self._base.tokenizer.pad_token_id)

    # --- weights -----------------------------------------------------------------------------

    def agent(self, *, seed: int = 0) -> Agent:
        """The present weights as text -> text; they stay as they are while the learner goes on.

        Args:
            seed: of the sampled tokens.

        Raises:
            ModelError: the learner is closed.
        """
        self._require_open()
        self._lent.add(self._version)
        policy, turns = self._policy(), 0

        def reply(text: str, earlier: list[EarlierTurn]) -> Generation:
            nonlocal turns
            self._require_open()
            turns += 1
            asked = self._engine.generate(policy.request(text, (seed, turns), tuple(earlier)))
            return self._loop.run(within(asked, _REPLY_S, f"a reply of {self.name}"))

        return Agent(str(self._version), lambda _: ModelPlayer(reply), _nothing, seed)

    def save(self, folder: str | Path) -> Path:
        """Write the adapter as PEFT reads it; ``srl play`` takes it as ``MODEL+FOLDER``.

        Args:
            folder: made if absent; an adapter in it is replaced.

        Raises:
            ModelError: the learner is closed.
        """
        self._require_open()
        self._base.save_adapter(self.name, Path(folder))
        return Path(folder)

    def close(self) -> None:
        """Free the engines; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        policies = [self._policy(), *self._guests.values()]
        self._loop.run(within(close_engines(policies), _REPLY_S, "closing the engines"))
        self._loop.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _policy(self) -> ModelPolicy:
        return ModelPolicy(self._engine, self._version)

    def _require_open(self) -> None:
        if self._closed:
            raise ModelError(f"learner {self.name!r} is closed; load it again.")


def _check_seats(env_id: str, seats: int, others: Mapping[int, str]) -> None:
    """Refuse opponents in seats that do not exist, and in all seats."""
    allowed = f"{env_id} has seats 0 to {seats - 1}"
    for number in others:
        if number not in range(seats):
            raise ConfigError(f"opponents: seat {number!r}: {allowed}.")
    if len(others) == seats:
        raise ConfigError(f"opponents: all seats are taken: {allowed}; leave one to the learner.")


def _nothing() -> None:
    """An agent of a learner frees nothing: the learner owns the engine."""
