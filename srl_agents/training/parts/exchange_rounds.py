"""Exchange of rollouts: every learner's batch gets the rows of others at states that both met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from srl_agents.credit.batches import exchanged_batch
from srl_agents.credit.settings import CreditSettings
from srl_agents.records import (
    Episode,
    ExchangedBatch,
    ForeignTurn,
    MatchSpec,
    TrainingBatch,
    WeightVersion,
)
from srl_agents.sharing.capabilities import Capabilities
from srl_agents.sharing.exchange_settings import WINDOW, ExchangeSettings
from srl_agents.sharing.hacpo import exchange_advantages
from srl_agents.sharing.met_states import MetState, MetTurn, earned_points, met_states
from srl_agents.trainers.foreign_replies import (
    gradient_share,
    mean_logprobs,
    mean_ratio,
    plain_rows,
    read_reply,
    weigh_for_step,
)
from srl_agents.trainers.learner import AdapterLearner, Batch

Metrics = dict[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangeTerms:
    """Parts of a recipe that an exchange reads."""

    settings: ExchangeSettings
    credits: Mapping[str, CreditSettings]
    """Game -> its credit settings."""
    scale: bool
    """Whether advantages are divided by their group's deviation."""
    max_new_tokens: int
    """Most tokens that a reader could have written."""
    max_staleness: int | None
    """Steps that a row may be old; None: nothing is played ahead."""


@dataclass(slots=True)
class _Offer:
    """Rows of others for one reader, and why others are not among them."""

    turns: list[ForeignTurn] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    pairs: set[tuple[object, ...]] = field(default_factory=set)
    """(author, game, seat) without a ratio of capabilities."""

    @property
    def metrics(self) -> Metrics:
        """Counts of the rows, by what became of them."""
        return {
            "exchange/rows": float(len(self.turns)),
            "exchange/unmet": float(self.left_out["unmet"]),
            "exchange/unreadable": float(self.left_out["unreadable"]),
            "exchange/too_long": float(self.left_out["too_long"]),
            "exchange/too_old": float(self.left_out["too_old"]),
            "exchange/no_capability": float(len(self.pairs)),
        }


class RolloutExchange:
    """Lets learners learn from each other's rows. Source: arXiv:2603.02604 (HACPO).

    Args:
        terms: of the recipe.
        learners: by name.
        game_of: name of a match's game.
        say: shows a line.
    """

    def __init__(
        self,
        terms: ExchangeTerms,
        learners: Mapping[str, AdapterLearner[Any]],
        game_of: Callable[[MatchSpec], str],
        say: Callable[[str], None],
    ) -> None:
        self._terms, self._learners = terms, learners
        self._game_of, self._say = game_of, say
        self._capabilities = Capabilities(WINDOW)
        self._said: set[tuple[str, str]] = set()
        self._states: list[MetState] = []
        self._update = 0

    def observe(self, update: int, episodes: Sequence[Episode], players: Mapping[str, str]) -> None:
        """Take in what was played, before batches are extended.

        Args:
            update: its number.
            episodes: as credit sees them.
            players: policy version id that played -> learner.
        """
        self._update = update
        for name, points in earned_points(episodes, players, self._game_of).items():
            self._capabilities.observe(name, points)
        remembers = any(one.base.prompt.memory is not None for one in self._learners.values())
        self._states = met_states(
            episodes, players, self._game_of, self._terms.credits, remembers=remembers
        )

    def extend(self, name: str, own: TrainingBatch | None) -> tuple[TrainingBatch | None, Metrics]:
        """One learner's batch with the rows of others that it may learn from.

        Args:
            name: of the reader.
            own: its own rows; None where these teach nothing.

        Returns:
            The batch, None where nothing is in it, and metrics of the exchange.
        """
        offer = _Offer()
        for state in self._states:
            self._offer(name, state, offer)
        metrics = offer.metrics
        if not offer.turns:
            self._explain(name, metrics)
            return own, metrics
        learner = self._learners[name]
        pad_id = learner.base.tokenizer.pad_token_id
        batch = exchanged_batch(name, own, offer.turns, pad_id)
        if self._terms.settings.estimator != "naive":
            return batch, metrics
        return self._as_own(learner, batch, metrics)

    def weighed(
        self, batches: Mapping[str, Batch], step: int
    ) -> tuple[dict[str, Batch], dict[str, Metrics]]:
        """Batches of one optimizer step, with rows of others weighed by what their readers are now.

        Args:
            batches: of this update, by learner.
            step: optimizer steps that were taken on them.

        Returns:
            Batches that are learned from, and metrics by learner.
        """
        ready: dict[str, Batch] = {}
        metrics: dict[str, Metrics] = {}
        for name, batch in batches.items():
            if not isinstance(batch, ExchangedBatch):
                ready[name] = batch
                continue
            learner: Any = self._learners[name]
            weighed = weigh_for_step(learner, batch, self._terms.settings, step)
            metrics[name] = weighed.metrics
            if weighed.batch is not None:
                ready[name] = weighed.batch
            if step == 0:
                self._explain(name, {"exchange/rows": 1.0} | weighed.metrics)
        return ready, metrics

    def state(self) -> dict[str, Any]:
        """State that later updates depend on, as JSON values."""
        return self._capabilities.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._capabilities.load_state(state)

    # --- which rows --------------------------------------------------------------------------

    def _offer(self, name: str, state: MetState, offer: _Offer) -> None:
        """Add the rows of others at one state."""
        own = [met for met in state.turns if met.learner == name]
        others = [met for met in state.turns if met.learner != name]
        if not own:
            offer.left_out["unmet"] += len(others)
            return
        ratios = {name: 1.0}
        for author in dict.fromkeys(met.learner for met in others):
            ratio = self._capabilities.ratio(name, author, state.place)
            if self._terms.settings.estimator == "naive":
                ratio = 1.0
            if ratio is None:
                offer.pairs.add((author, *state.place))
            else:
                ratios[author] = ratio
        turns = [met for met in state.turns if met.learner in ratios]
        rewards_N = np.array([met.reward for met in turns])
        if len(ratios) == 1 or np.ptp(rewards_N) == 0:
            return
        advantages_N = exchange_advantages(
            rewards_N,
            np.array([ratios[met.learner] for met in turns]),
            np.array([met.learner == name for met in turns]),
            rescale=self._terms.settings.estimator != "no_rescaling",
            scale=self._terms.scale,
        )
        for met, advantage in zip(turns, advantages_N, strict=True):
            if met.learner != name and (advantage < 0 or not met.turn.invalid):
                one = self._read(name, met, own[0], float(advantage), 1 / ratios[met.learner])
                if isinstance(one, ForeignTurn):
                    offer.turns.append(one)
                else:
                    offer.left_out[one] += 1

    def _read(
        self, name: str, met: MetTurn, own: MetTurn, advantage: float, coefficient: float
    ) -> ForeignTurn | str:
        """A row of another in the reader's tokens, or why there is none."""
        author, reader = self._learners[met.learner], self._learners[name].base
        version, most = WeightVersion.parse(met.turn.version), self._terms.max_staleness
        if most is not None and author.version - version.number > most:
            return "too_old"
        read = read_reply(met.turn, author.base, reader)
        if read is None:
            return "unreadable"
        room = reader.context_length - len(own.turn.prompt_ids)
        if len(read.ids) > min(room, self._terms.max_new_tokens):
            return "too_long"
        return ForeignTurn(
            author=version,
            prompt_ids=own.turn.prompt_ids,
            completion_ids=read.ids,
            author_logprob=read.author_logprob,
            advantage=advantage,
            coefficient=coefficient,
        )

    def _as_own(
        self, learner: Any, batch: ExchangedBatch, metrics: Metrics
    ) -> tuple[TrainingBatch, Metrics]:
        """The batch of a naive exchange: all rows as if the reader had written them before the first step."""
        foreign_r = np.flatnonzero(batch.foreign_R)
        rows = batch.take(foreign_r)
        now_RT, means_R = mean_logprobs(learner, rows)
        logprobs_RT = batch.logprobs_RT.copy()
        logprobs_RT[foreign_r] = now_RT
        plain = plain_rows(replace(batch, logprobs_RT=logprobs_RT))
        return plain, metrics | {
            "exchange/ratio": mean_ratio(means_R - rows.author_logprobs_R),
            "exchange/gradient_share": gradient_share(plain, batch.foreign_R),
        }

    # --- what is said ------------------------------------------------------------------------

    def _explain(self, name: str, values: Metrics) -> None:
        """Say once for each reason why a learner learns nothing from others."""
        reason = self._why_nothing(values)
        kind = reason.split(":")[0]
        if reason and (name, kind) not in self._said:
            self._said.add((name, kind))
            self._say(
                f"update {self._update}: exchange: {name} learns nothing from others: {reason}"
            )

    def _why_nothing(self, values: Metrics) -> str:
        settings = self._terms.settings
        if values["exchange/rows"]:
            below, above = values["exchange/below"], values["exchange/above"]
            if settings.clip is None or below + above < 1:
                return ""
            return (
                f"all rows were clipped: {below:.0%} below and {above:.0%} above, mean ratio "
                f"{values['exchange/ratio']:.2g}. Below {1 - settings.clip[0]:g} a reply is too unlikely "
                "for its reader: let learners begin alike (warm_start), or widen sharing.exchange.clip."
            )
        if values["exchange/no_capability"]:
            return "no ratio of capabilities: one of each pair never succeeded."
        if values["exchange/unmet"]:
            return (
                "no state in common: others met other observations. Use games whose first observation is "
                "equal, or one seat."
            )
        lost = values["exchange/unreadable"] + values["exchange/too_long"]
        if lost:
            return f"no readable reply: {lost:.0f} do not survive the change of tokens, or are too long."
        return "all replies at each state earned the same."
