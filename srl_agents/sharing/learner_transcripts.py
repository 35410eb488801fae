"""One learner's replies of an episode, and their rewards, for others to imitate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srl_agents.records import Episode
from srl_agents.sharing.board import Notice
from srl_agents.sharing.demonstrations import Demonstration


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedTurn:
    """One reply and what it answered."""

    observation: str
    reply: str
    prompt_ids: tuple[int, ...]
    reply_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """Everything one seat wrote in one episode, in order."""

    turns: tuple[SharedTurn, ...]

    def demonstrations(self, by: str) -> list[Demonstration]:
        """The turns as rows of imitation; tokens are those that were sampled."""
        return [
            Demonstration(prompt_ids=turn.prompt_ids, reply_ids=turn.reply_ids, by=by)
            for turn in self.turns
        ]


def transcripts_of(
    episodes: Sequence[Episode], live: Mapping[str, str]
) -> list[Notice[Transcript]]:
    """What learners did in training, each episode worth its total reward.

    Episodes on evaluation seeds and lost ones give nothing, nor does a seat with a reply that the
    game refused: such replies are not to be imitated.

    Args:
        episodes: of one update.
        live: policy version id -> learner, of the versions that learn.
    """
    notices = []
    for episode in episodes:
        if not episode.valid or episode.spec.split != "train":
            continue
        for seat in episode.spec.learner_seats:
            trajectory = episode.trajectories[seat]
            turns = trajectory.turns
            if trajectory.policy not in live or not turns:
                continue
            if any(turn.invalid is not None or not turn.completion_ids for turn in turns):
                continue
            shared = tuple(
                SharedTurn(
                    observation=turn.observation,
                    reply=turn.reply,
                    prompt_ids=turn.prompt_ids,
                    reply_ids=turn.completion_ids,
                )
                for turn in turns
            )
            notices.append(
                Notice(
                    learner=live[trajectory.policy],
                    policy=trajectory.policy,
                    worth=trajectory.total_reward,
                    item=Transcript(turns=shared),
                )
            )
    return notices


def examples_of(notices: Sequence[Notice[Transcript]], turns: int) -> list[tuple[str, str]]:
    """(observation, reply) pairs for a prompt, from the least to the best, each reply once.

    Args:
        notices: best first.
        turns: most turns of one transcript, from its beginning.
    """
    best_first = [
        (turn.observation, turn.reply) for notice in notices for turn in notice.item.turns[:turns]
    ]
    return list(dict.fromkeys(best_first))[::-1]
