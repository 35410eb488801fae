"""A learned reward beside the rules': trained on earlier updates, not read by ratings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from srl_agents.credit.preferences import Preference, PreferenceBatch, paid_pairs
from srl_agents.models.base_model import BaseModel
from srl_agents.records import Episode, Trajectory
from srl_agents.trainers.supervised.reward_model import NAME, RewardLearner
from srl_agents.trainers.supervised.reward_model_settings import RewardModelSettings

COMPONENT = "reward_model"
"""Name of the reward component that it adds."""
Tokens = tuple[int, ...]
_ADAPTER, _OPTIMIZER = "reward_model.adapter", "reward_model.optimizer"
"""Groups of a checkpoint's tensors."""


class LearnedReward:
    """One reward model for all learners of a run.

    In each update it first judges the episodes, then is tested on the pairs that they make, and only
    then learns from them: nothing is judged or tested by a model that has seen it.

    Args:
        settings: of the recipe.
        base: gets the reward model's adapter.
        seed: of the adapter's first weights.
        written_by: base of the learners, if that is another one.
    """

    def __init__(
        self,
        settings: RewardModelSettings,
        base: BaseModel,
        seed: int,
        written_by: BaseModel | None = None,
    ) -> None:
        self.settings, self.base, self._written_by = settings, base, written_by
        self.learner = RewardLearner(base, settings, seed)
        self._learned = 0

    def judged(
        self, episodes: Sequence[Episode], policies: Collection[str]
    ) -> tuple[list[Episode], dict[str, float]]:
        """Episodes as credit shall see them: with what the reward model makes of learners' replies.

        Each turn of a learning seat gets ``weight`` times its judgement over the seat's number of
        turns, so an episode gets ``weight`` times the mean. The rules' rewards stay in it.

        Args:
            episodes: as they were played; they are not changed.
            policies: version ids that learn.

        Returns:
            The episodes, unchanged until the model is ready, and ``reward_model/judgement``, the mean.
        """
        seats = [
            (e, seat)
            for e, episode in enumerate(episodes)
            for seat in episode.spec.learner_seats
            if episode.valid and episode.trajectories[seat].policy in policies
        ]
        turns = [
            (e, seat, k)
            for e, seat in seats
            for k, turn in enumerate(episodes[e].trajectories[seat].turns)
            if turn.completion_ids
        ]
        if self._learned < self.settings.ready_pairs or not turns:
            return list(episodes), {}
        written = [episodes[e].trajectories[seat].turns[k] for e, seat, k in turns]
        judgements = self.learner.judgements(
            [self._read(t.prompt_ids, t.completion_ids) for t in written]
        )
        by_turn = dict(zip(turns, judgements.tolist(), strict=True))
        judged = list(episodes)
        for e, seat in seats:
            own = judged[e].trajectories[seat]
            count = max(len(own.turns), 1)
            extra = [
                self.settings.weight * by_turn.get((e, seat, k), 0.0) / count
                for k in range(len(own.turns))
            ]
            trajectories = list(judged[e].trajectories)
            trajectories[seat] = _with_extra(own, extra)
            judged[e] = replace(judged[e], trajectories=tuple(trajectories))
        return judged, {"reward_model/judgement": float(np.mean(judgements))}

    def learn(self, episodes: Sequence[Episode], policies: Collection[str]) -> dict[str, float]:
        """Take a step on the pairs that the rules ordered.

        Args:
            episodes: as they were played.
            policies: version ids that learn.

        Returns:
            ``reward_model/pairs`` and, if there are any, ``reward_model/accuracy`` and
            ``reward_model/margin`` of these pairs before the step, and ``reward_model/loss``.
        """
        pairs = paid_pairs(episodes, policies, self.settings.pairs)
        metrics = {"reward_model/pairs": float(len(pairs))}
        if not pairs:
            return metrics
        batch = PreferenceBatch(learner=NAME, pairs=tuple(map(self._read_pair, pairs)))
        for number, part in enumerate(self.learner.steps(batch)):
            seen = self.learner.compute_gradients(part)
            self.learner.apply_gradients()
            if number == 0:
                metrics |= {
                    f"reward_model/{key}": seen[key] for key in ("accuracy", "margin", "loss")
                }
        self._learned += len(pairs)
        return metrics

    def _read(self, prompt_ids: Tokens, reply_ids: Tokens) -> tuple[Tokens, Tokens]:
        """Prompt and reply in tokens of the reward model's base."""
        if self._written_by is None:
            return prompt_ids, reply_ids
        prompt = self.base.encode_prompt(self._written_by.decode(prompt_ids))
        limit = self.base.context_length
        reply = self.base.encode_reply(self._written_by.decode(reply_ids))[-limit:]
        return prompt[max(0, len(prompt) + len(reply) - limit) :], reply

    def _read_pair(self, pair: Preference) -> Preference:
        prompt, chosen = self._read(pair.prompt_ids, pair.chosen_ids)
        other_prompt, rejected = self._read(pair.prompt_ids, pair.rejected_ids)
        shorter = min(prompt, other_prompt, key=len)
        return replace(pair, prompt_ids=shorter, chosen_ids=chosen, rejected_ids=rejected)

    def state(self) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """What later updates depend on: named groups of tensors, and JSON values."""
        tensors, state = self.learner.state()
        groups = {_ADAPTER: self.base.adapter_tensors(NAME), _OPTIMIZER: tensors}
        return groups, {"learner": state, "learned": self._learned}

    def load_state(self, groups: Mapping[str, dict[str, Any]], state: Mapping[str, Any]) -> None:
        """The inverse of `state`; ``groups`` may hold others."""
        self.base.set_adapter_tensors(NAME, groups[_ADAPTER])
        self.learner.load_state(groups[_OPTIMIZER], state["learner"])
        self._learned = int(state["learned"])


def rule_reward(episodes: Sequence[Episode], policy: str) -> float:
    """Mean total reward of a policy's learning seats, as the rules paid it; 0 without any."""
    rewards = [
        episode.trajectories[seat].total_reward
        for episode in episodes
        for seat in episode.spec.learner_seats
        if episode.valid and episode.spec.seats[seat] == policy
    ]
    return float(np.mean(rewards)) if rewards else 0.0


def _with_extra(trajectory: Trajectory, extra: Sequence[float]) -> Trajectory:
    """The trajectory with one more reward component."""
    return replace(
        trajectory,
        turns=tuple(
            replace(
                turn,
                reward=turn.reward + more,
                components={**turn.components, COMPONENT: more},
            )
            for turn, more in zip(trajectory.turns, extra, strict=True)
        ),
        total_reward=trajectory.total_reward + sum(extra),
        components={**trajectory.components, COMPONENT: sum(extra)},
    )
