"""Matches that another process played, in every process of a run: the first asks, the others receive them."""

from __future__ import annotations

from srl_agents.coordination.processes import Processes
from srl_agents.rollouts.buffer import Played
from srl_agents.training.ahead.orders import MatchesAhead, Taken

_Sent = tuple[bytes, list[str], list[str], dict[str, str], dict[str, float]]
"""Frames of an update's matches, ids of its matches and of its branches, players, metrics."""


class SharedMatches:
    """The trainer's side of generation in another process, the same in all processes of the run.

    Args:
        processes: of the run.
        ahead: orders and takes; None in all processes but the first.
        max_staleness: steps that a row may be old.
    """

    def __init__(
        self, processes: Processes, ahead: MatchesAhead | None, max_staleness: int
    ) -> None:
        self._processes, self._ahead, self.max_staleness = processes, ahead, max_staleness

    def take(self, number: int) -> Taken:
        """See `MatchesAhead.take`.

        Raises:
            ModelError: the generation process ended too often, or another process of the run is gone.
            DeadlineError: the generation process fell silent too often.
        """
        if self._ahead is None:
            return _taken(self._processes.from_first(None))
        taken = self._ahead.take(number)
        if self._processes.size > 1:
            self._processes.from_first(_sent(taken, self._ahead.frames(number)))
        return taken

    def give_back(self, number: int) -> None:
        """See `MatchesAhead.give_back`."""
        if self._ahead is not None:
            self._ahead.give_back(number)

    def acknowledge(self, done: int) -> None:
        """See `MatchesAhead.acknowledge`."""
        if self._ahead is not None:
            self._ahead.acknowledge(done)


def _sent(taken: Taken, frames: bytes) -> _Sent:
    """What the other processes need: matches go as the buffer has them, and are not written again."""
    matches = [episode.spec.match_id for episode in taken.episodes]
    branches = [episode.spec.match_id for episode in taken.branches]
    return frames, matches, branches, taken.players, taken.metrics


def _taken(sent: _Sent) -> Taken:
    frames, matches, branches, players, metrics = sent
    played = Played()
    played.take(frames)
    return Taken(
        episodes=[played.episodes[name] for name in matches],
        branches=[played.episodes[name] for name in branches],
        players=players,
        metrics=metrics,
    )
