"""Epochs of a protocol: games before and after a change of what agents see, or of how it is judged.

References are programs of the board and play the same matches in everybody's bundle. So where two bundles
that were replayed hold another record of such a match, the game, its texts, its rules or its bots changed in
between. The bundle that was published last decides what counts now; games of an earlier epoch leave the
rating and are listed with what changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from leaderboards.bundles.submission import Bundle
from leaderboards.contents.record import MatchRecord
from srl_envs.errors import SRLError


@dataclass(frozen=True, slots=True)
class Earlier:
    """A bundle of an earlier epoch."""

    bundle: str
    """Path below the board."""
    agents: tuple[str, ...]
    """Entrants; the references where only these played."""
    published: str
    changed: str
    """How games differ from the present epoch, in words."""


@dataclass(slots=True)
class Changes:
    """Differences of matches between references in two bundles."""

    matches: int = 0
    """Matches that both bundles hold."""
    seen: int = 0
    """Matches in which the same replies led to another text for a seat."""
    judged: int = 0
    """Matches in which the same replies were paid or refused differently."""
    replied: int = 0
    """Matches in which a bot replied differently, for any reason."""

    @property
    def any(self) -> bool:
        """Whether any match differs."""
        return bool(self.seen or self.judged or self.replied)

    def __str__(self) -> str:
        parts = [
            f"{count} {words}"
            for count, words in (
                (self.judged, "judge the same replies differently"),
                (self.seen, "show seats another text for the same replies"),
                (self.replied, "have other replies of bots"),
            )
            if count
        ]
        return f"of {self.matches} matches between references, {', '.join(parts) or 'none differs'}"


def changes(before: Bundle, after: Bundle) -> Changes:
    """What differs in the matches between references that both bundles hold."""
    found = Changes()
    old = {record.spec.match_id: record for record in _among_references(before)}
    for record in _among_references(after):
        other = old.get(record.spec.match_id)
        if other is None:
            continue
        found.matches += 1
        if [s.replies for s in other.transcript.steps] != [
            s.replies for s in record.transcript.steps
        ]:
            found.replied += 1
        elif _verdict(other) != _verdict(record):
            found.judged += 1
        elif other.transcript.digest != record.transcript.digest:
            found.seen += 1
    return found


def earlier(name: str, before: Bundle, after: Bundle, published: str) -> Earlier:
    """A bundle of an earlier epoch, with what changed.

    Args:
        name: path of the bundle below the board.
        before: the bundle.
        after: one of the present epoch.
        published: when the bundle came in.
    """
    try:
        changed = str(changes(before, after))
    except SRLError as error:
        changed = f"cannot be compared: {error}"
    agents = tuple(agent.agent_id for agent in before.entrants) or before.protocol.references
    return Earlier(name, agents, published, changed)


def _verdict(record: MatchRecord) -> tuple[object, ...]:
    steps = record.transcript.steps
    return (
        record.result.outcomes,
        record.result.rewards,
        record.result.termination,
        [(step.rewards, step.invalid) for step in steps],
    )


def _among_references(bundle: Bundle) -> Iterator[MatchRecord]:
    references = frozenset(bundle.protocol.references)
    return (record for record in bundle.records() if references.issuperset(record.spec.seats))
