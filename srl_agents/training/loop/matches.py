"""Plays the matches of a run: shared out to its processes, stored, and refused where most are lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from srl_agents.coordination.processes import Processes
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics import ConsoleView
from srl_agents.metrics.meetings import meetings
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Finished, Rollouts
from srl_agents.rollouts.transcripts import TranscriptLog, transcript_of
from srl_agents.training.parts.budgets import Budgets
from srl_envs.api.episode import Transcript
from srl_envs.errors import SandboxError


class Matches:
    """What every phase that plays goes through.

    Args:
        rollouts: plays.
        store: gets every result.
        processes: play a part each, and hear of the others'; None where there is one.
        view: shows progress.
        repeatable: a match that is played again, after a crash, ends alike; see
            `LeagueStore.report_many`.
        budgets: of those who are asked for money; None where no agent has one.
        learned: gets the matches that are learned from; None where they are not kept.
        whole: inside it engines have all weights; all processes enter together.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        *,
        store: LeagueStore,
        processes: Processes | None,
        view: ConsoleView,
        repeatable: bool,
        budgets: Budgets | None,
        learned: TranscriptLog | None = None,
        whole: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.rollouts, self.store = rollouts, store
        self.processes, self.view = processes, view
        self.repeatable, self.budgets, self._whole = repeatable, budgets, whole
        self._learned = learned

    def play(
        self,
        phase: str,
        specs: Sequence[MatchSpec],
        finished: Finished | None = None,
        *,
        most_void: float = 0.5,
        parents: Mapping[str, Episode] | None = None,
    ) -> list[Episode]:
        """Play and store; all processes return the same.

        Args:
            phase: what to show meanwhile.
            specs: the matches.
            finished: called with each match.
            most_void: share of matches that may be lost before nothing can be concluded from the rest.
            parents: match id -> episode, of the matches that branches among the specs leave.

        Raises:
            SandboxError: more could not be finished.
        """
        play = self._play if self.processes is None else partial(self._play_shared, self.processes)
        if self.budgets is not None:
            self.budgets.take(specs)
        episodes = play(phase, specs, finished, parents)
        if self.budgets is not None:
            self.budgets.give_back(specs, episodes)
        self.keep(episodes, most_void=most_void)
        return episodes

    def play_to_learn(
        self,
        phase: str,
        specs: Sequence[MatchSpec],
        parents: Mapping[str, Episode] | None = None,
    ) -> list[Episode]:
        """See `play`; of matches that are learned from, branches included."""
        finished = None if self._learned is None else self._learned.add
        return self.play(phase, specs, finished, parents=parents)

    def keep_learned(self, episodes: Sequence[Episode]) -> None:
        """See `keep`; of what another process played to be learned from."""
        self.keep(episodes)
        if self._learned is not None:
            for episode in episodes:
                if episode.valid:
                    self._learned.add(episode, transcript_of(episode))

    def _play(
        self,
        phase: str,
        specs: Sequence[MatchSpec],
        finished: Finished | None,
        parents: Mapping[str, Episode] | None,
    ) -> list[Episode]:
        self.view.phase(phase, len(specs))
        with self._whole():
            return self.rollouts.play(specs, self.view.advance, finished, parents)

    def _play_shared(
        self,
        processes: Processes,
        phase: str,
        specs: Sequence[MatchSpec],
        finished: Finished | None,
        parents: Mapping[str, Episode] | None,
    ) -> list[Episode]:
        """Play a part of the matches, and hear of those of the other processes."""
        ended: list[tuple[Episode, Transcript]] = []

        def keep(episode: Episode, transcript: Transcript) -> None:
            ended.append((episode, transcript))

        own = [spec for number, spec in enumerate(specs) if processes.mine(number)]
        episodes = processes.interleave(self._play(phase, own, keep, parents))
        if finished is not None:
            for episode, transcript in (
                match for part in processes.gather(ended) for match in part
            ):
                finished(episode, transcript)
        return episodes

    def affordable(self, specs: Sequence[MatchSpec]) -> list[MatchSpec]:
        """The matches without those that an agent's budget does not cover."""
        return list(specs) if self.budgets is None else self.budgets.affordable(specs)

    def covered(self, branches: Sequence[MatchSpec]) -> list[MatchSpec]:
        """The branches without those that an agent's budget does not cover."""
        return list(branches) if self.budgets is None else self.budgets.covered(branches)

    def keep(self, episodes: Sequence[Episode], *, most_void: float = 0.5) -> None:
        """Store what was played, here or elsewhere.

        Args:
            episodes: of one phase.
            most_void: as in `play`.

        Raises:
            SandboxError: more could not be finished.
        """
        self.store.report_many(
            ((episode.spec, episode.result()) for episode in episodes), repeatable=self.repeatable
        )
        if episodes and self.view.shows_meetings:
            self.view.met(meetings(episodes))
        void = [episode for episode in episodes if not episode.valid]
        if len(void) > most_void * len(episodes):
            raise SandboxError(
                f"{len(void)} of {len(episodes)} episodes could not be finished, the first with: "
                f"{void[0].fault}."
            )
