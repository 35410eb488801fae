"""A rubric of `srl_envs.rewards` as a reward for the replies of a seat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from srl_agents.records import Turn
from srl_agents.rewards.rubric_files import find_rubric
from srl_agents.rewards.terms import Judge, Played, RewardTerm
from srl_agents.yaml_files import read_yaml
from srl_envs.errors import ConfigError
from srl_envs.rewards import Rubric

FIELDS = ("observation", "seat")
"""Fields of a row that a game gives: what the seat read before the reply, and its number."""


@dataclass(frozen=True, kw_only=True)
class RubricTerm(RewardTerm):
    """What a rubric makes of a seat's replies; see ``docs/guides/rewards.md``.

    The rubric reads the reply, the fields in `FIELDS`, and the answers that the game holds to be right
    (`Turn.references`). Where it reads the latter, only moves that answer a question are judged.
    """

    kind: str = "rubric"
    rubric: str | dict[str, Any] = field(default_factory=dict)
    """Name of a shipped rubric, a YAML file, or what stands in such a file. A file is read when the
    recipe is, and what it held becomes part of the run's recipe."""
    replies: Literal["each", "last", "accepted"] = "each"
    """``each``: the mean over the seat's replies. ``last``: its last reply. ``accepted``: the last reply
    that the game accepted; nothing where it accepted none."""

    reads: Literal["reply", "move"] = "reply"
    """``reply``: all that was written. ``move``: the answer in the move that the game accepted, nothing
    where it accepted none; for rubrics that read the game's right answers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rubric, str):
            object.__setattr__(self, "rubric", read_yaml(find_rubric(self.rubric)))
        self._built()
        if self.reads == "move" and not self.references:
            raise ConfigError(
                "reads='move' is for rubrics that read the game's right answers; leave it out."
            )

    @property
    def references(self) -> tuple[str, ...]:
        """See `RewardTerm`."""
        return tuple(name for name in self._built().fields if name not in FIELDS)

    def judge(self, max_new_tokens: int) -> Judge:
        """See `RewardTerm`."""
        rubric, asks = self._built(), bool(self.references)

        def scored(played: Sequence[Played]) -> list[list[float | None]]:
            chosen = [(p, k) for p, own in enumerate(played) for k in self._chosen(own, asks)]
            turns = [played[p].trajectory.turns[k] for p, k in chosen]
            rows = [
                {**turn.references, "observation": turn.observation, "seat": played[p].seat}
                for (p, _), turn in zip(chosen, turns, strict=True)
            ]
            scores = rubric.score_many([self._text(turn) for turn in turns], rows)
            values: list[list[float | None]] = [[0.0] * len(p.trajectory.turns) for p in played]
            for (p, k), score in zip(chosen, scores, strict=True):
                share = 1.0 if self.replies != "each" else 1 / len(self._chosen(played[p], asks))
                values[p][k] = None if score.reward is None else score.reward * share
            return values

        return scored

    def _built(self) -> Rubric:
        if not isinstance(self.rubric, dict) or not self.rubric:
            raise ConfigError(
                "rubric: give the name of a shipped one, a YAML file, or `parts:` as in such a file."
            )
        return Rubric.from_config(self.rubric)

    def _text(self, turn: Turn) -> str:
        return turn.reply if self.reads == "reply" else turn.answer or ""

    def _chosen(self, played: Played, asks: bool) -> list[int]:
        """Numbers of the seat's turns whose replies count. Turns without a reply do not; where the rubric
        reads right answers, turns that answer no question do not."""
        written = [
            k
            for k, turn in enumerate(played.trajectory.turns)
            if turn.completion_ids and (turn.references or not asks)
        ]
        if self.replies == "accepted":
            written = [k for k in written if _accepted(played.trajectory.turns[k])]
        return written if self.replies == "each" else written[-1:]


def _accepted(turn: Turn) -> bool:
    return turn.invalid is None
