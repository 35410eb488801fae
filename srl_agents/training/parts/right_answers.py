"""How likely learners find the right answer, turn by turn: what `information_gain` reads."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from srl_agents.credit.batches import training_batch
from srl_agents.models.base_model import BaseModel
from srl_agents.records import Trajectory, Turn, WeightVersion
from srl_envs.turns.grammar import action

ANSWER = "answer"
"""What `Turn.references` calls it."""


class RightAnswers:
    """Asks each learner, as it is now, about the prompts that it answered.

    Where matches are played ahead, that is a later version than the one that played, and the same one for all
    attempts at one start state.

    Args:
        learners: by name, each a `srl_agents.trainers.experience.RowLearner`.
    """

    def __init__(self, learners: Mapping[str, Any]) -> None:
        self._learners = learners

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """Log-probability of the right answer in place of each turn's reply, nats.

        NaN where the move answers no question, nothing was sampled, or the model has no room for the answer.
        """
        found = [[math.nan] * len(played.turns) for played in trajectories]
        asked: dict[str, list[tuple[int, int, Turn]]] = defaultdict(list)
        for row, played in enumerate(trajectories):
            for k, turn in enumerate(played.turns):
                if ANSWER in turn.references and turn.prompt_ids and turn.version:
                    name = WeightVersion.parse(turn.version).learner
                    right = _answered_right(turn, self._learners[name].base)
                    if right is not None:
                        asked[name].append((row, k, right))
        for name, own in asked.items():
            learner = self._learners[name]
            pad_id = learner.base.tokenizer.pad_token_id
            batch = training_batch(name, [(turn, 0.0) for _, _, turn in own], pad_id)
            sums_R = learner.token_logprobs(batch, name).sum(axis=1)
            for (row, k, _), logprob in zip(own, sums_R, strict=True):
                found[row][k] = float(logprob)
        return found


def _answered_right(turn: Turn, base: BaseModel) -> Turn | None:
    """The turn as if the right answer had been its reply, without thoughts; None without room for it."""
    end = base.chat.thoughts_end
    ids = (*end, *base.encode_reply(action(str(turn.references[ANSWER]))))
    if len(turn.prompt_ids) + len(ids) > base.context_length:
        return None
    return replace(
        turn,
        completion_ids=ids,
        logprobs=(0.0,) * len(ids),
        thought_tokens=len(end),
        forced_tokens=len(end),
    )
