"""Compare matches that were played again with a board: the results must be the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leaderboards.boards.archive import read_board
from leaderboards.bundles.replaying import transcript_difference
from leaderboards.bundles.submission import Bundle, name_of
from leaderboards.contents.intake import BundleError
from leaderboards.contents.record import MatchRecord
from srl_agents.league.agents import AgentVersion

Progress = Callable[[str, int, int], None]
"""(task, parts done, parts in all)."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One bundle beside the board's bundles of its protocol."""

    bundle: str
    """Folder of the bundle."""
    shared: int
    """Matches that the board has, too."""
    matches: int
    """Matches of the bundle."""
    difference: str
    """The first thing that is not the same; empty where nothing is."""

    @property
    def reproduced(self) -> bool:
        """Whether every match of the bundle is on the board, with the same replies and results."""
        return not self.difference and self.shared == self.matches


def compare(bundle: Bundle, board: Path, progress: Progress | None = None) -> Comparison:
    """Compare a bundle with all that the board has of its protocol, match by match.

    Log-probabilities are left out: another machine rounds them differently, and L3 judges them.

    Args:
        bundle: as read by `open_bundle`; its records are checked on the way.
        board: folder with verified bundles.
        progress: called as the work goes on.

    Raises:
        BundleError: the bundle is damaged.
    """
    groups = {group.protocol.name: group for group in read_board(board).groups}
    group = groups.get(bundle.protocol.name)
    known: dict[str, MatchRecord] = {}
    agents: dict[str, AgentVersion] = {}
    for entry in group.entries if group is not None else ():
        agents |= {agent.agent_id: agent for agent in entry.bundle.agents}
        with suppress(BundleError):  # such a bundle is set aside when the board is built
            known |= {record.spec.match_id: record for record in entry.bundle.records()}
    shared, difference = 0, ""
    for agent in bundle.agents:
        if agent.agent_id in agents and agent.spec != agents[agent.agent_id].spec:
            difference = difference or f"agent {agent.agent_id} is another one on the board"
    for number, record in enumerate(bundle.records()):
        published = known.get(record.spec.match_id)
        if published is not None:
            shared += 1
            wrong = transcript_difference(published.transcript, record.transcript)
            difference = difference or (wrong and f"{name_of(number, record.spec)}: {wrong}")
        if progress is not None:
            progress(bundle.protocol.name, number + 1, len(bundle.specs))
    return Comparison(str(bundle.folder), shared, len(bundle.specs), difference)
