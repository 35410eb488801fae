"""Who met whom in the matches of a phase, and how these ended."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from srl_agents.records import Episode

_DIGEST = re.compile(r"(?<=@)(\d+)-[0-9a-f]{8,}$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
    """Matches between the same agents, whatever seats they had."""

    names: tuple[str, ...]
    """Agents in alphabetical order, versions without their digest: ``alice@3``."""
    matches: int
    outcomes: tuple[float, ...]
    """Mean outcome of each agent in matches that were not lost, in [-1, 1]; empty where all were lost."""
    void: int
    """Matches that our own machinery lost."""


def meetings(episodes: Iterable[Episode]) -> list[Meeting]:
    """Meetings of some episodes, the most frequent first."""
    played: dict[tuple[str, ...], list[tuple[float, ...]]] = defaultdict(list)
    lost: dict[tuple[str, ...], int] = defaultdict(int)
    for episode in episodes:
        names = [_DIGEST.sub(r"\1", agent) for agent in episode.spec.seats]
        order = sorted(range(len(names)), key=names.__getitem__)
        key = tuple(names[seat] for seat in order)
        ended = played[key]
        if episode.valid:
            ended.append(tuple(episode.trajectories[seat].outcome for seat in order))
        else:
            lost[key] += 1
    found = [
        Meeting(
            names=names,
            matches=len(ended) + lost[names],
            outcomes=tuple(sum(seat) / len(ended) for seat in zip(*ended, strict=True)),
            void=lost[names],
        )
        for names, ended in played.items()
    ]
    return sorted(found, key=lambda meeting: (-meeting.matches, meeting.names))
