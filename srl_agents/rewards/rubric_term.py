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

    The rubric reads the whole reply and the fields in `FIELDS`. Games tell nobody their reference
    answers, so a rubric that reads one is refused.
    """

    kind: str = "rubric"
    rubric: str | dict[str, Any] = field(default_factory=dict)
    """Name of a shipped rubric, a YAML file, or what stands in such a file. A file is read when the
    recipe is, and what it held becomes part of the run's recipe."""
    replies: Literal["each", "last", "accepted"] = "each"
    """``each``: the mean over the seat's replies. ``last``: its last reply. ``accepted``: the last reply
    that the game accepted; nothing where it accepted none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rubric, str):
            object.__setattr__(self, "rubric", read_yaml(find_rubric(self.rubric)))
        self._built()

    def judge(self, max_new_tokens: int) -> Judge:
        """See `RewardTerm`."""
        rubric = self._built()

        def scored(played: Sequence[Played]) -> list[list[float | None]]:
            chosen = [(p, k) for p, own in enumerate(played) for k in self._chosen(own)]
            turns = [played[p].trajectory.turns[k] for p, k in chosen]
            rows = [
                {"observation": turn.observation, "seat": played[p].seat}
                for (p, _), turn in zip(chosen, turns, strict=True)
            ]
            scores = rubric.score_many([turn.reply for turn in turns], rows)
            values: list[list[float | None]] = [[0.0] * len(p.trajectory.turns) for p in played]
            for (p, k), score in zip(chosen, scores, strict=True):
                share = 1.0 if self.replies != "each" else 1 / len(self._chosen(played[p]))
                values[p][k] = None if score.reward is None else score.reward * share
            return values

        return scored

    def _built(self) -> Rubric:
        if not isinstance(self.rubric, dict) or not self.rubric:
            raise ConfigError(
                "rubric: give the name of a shipped one, a YAML file, or `parts:` as in such a file."
            )
        rubric = Rubric.from_config(self.rubric)
        for name in rubric.fields:
            if name not in FIELDS:
                raise ConfigError(
                    f"rubric reads {name!r}, which no game gives: games keep their reference answers to "
                    "themselves and pay right answers with the component `outcome`. In a recipe a rubric "
                    f"reads the reply and {', '.join(FIELDS)}; files with references are for `srl score`."
                )
        return rubric

    def _chosen(self, played: Played) -> list[int]:
        """Numbers of the seat's turns whose replies count; a turn that nobody wrote does not."""
        written = [k for k, turn in enumerate(played.trajectory.turns) if turn.completion_ids]
        if self.replies == "accepted":
            written = [k for k in written if _accepted(played.trajectory.turns[k])]
        return written if self.replies == "each" else written[-1:]


def _accepted(turn: Turn) -> bool:
    return turn.invalid is None
