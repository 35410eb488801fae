"""Where the rows of a board come from: who submitted an agent, how it was played, how it was checked.

All of it is for reading and moves no number. Texts are the submitter's words: the page shows them as
text and never as markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leaderboards.agents import ENDPOINT
from leaderboards.board import Entry
from leaderboards.verify import Level
from srl_agents.league.agents import AgentVersion
from srl_agents.records import MatchResult, MatchSpec

_ENDPOINT_FIELDS = ("provider", "model", "dated_model", "url")


def described_entries(entries: Iterable[Entry]) -> dict[str, dict[str, Any]]:
    """Agent id -> how it came in: of the first bundle that entered it.

    References play in everybody's bundles, so only a bundle of references alone speaks for them.

    Args:
        entries: the bundles of one protocol.

    Returns:
        The values of ``entry`` in ``data.json``; see docs/design/pages.md. ``signed`` holds where every
        bundle of the agent is.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in sorted(entries, key=lambda each: str(each.verified["when"])):
        bundle = entry.bundle
        for agent in bundle.entrants or bundle.agents:
            told = _described(entry, agent, reference=not bundle.entrants)
            known = found.setdefault(agent.agent_id, told)
            known["signed"] &= told["signed"]
    return found


def _described(entry: Entry, agent: AgentVersion, *, reference: bool) -> dict[str, Any]:
    declared, made = entry.bundle.claim["declared"], entry.bundle.manifest["provenance"]
    return {
        "submitter": _text(declared, "submitter"),
        "attempts": None if reference else {"registered": 0, "declared": declared["attempts"]},
        "endpoint": _endpoint(agent.spec),
        "training_data": _text(declared, "training_data"),
        **{name: _text(made, name) for name in ("commit", "command", "started", "srl")},
        "verified": _text(entry.verified, "when"),
        "signed": "signature" in entry.verified,
    }


def _endpoint(spec: Mapping[str, Any]) -> dict[str, str] | None:
    """Who answered for the agent, where that was a server; nobody can prove its weights."""
    served = spec.get(ENDPOINT)
    if served is None:
        return None
    return {name: _text(served, name) for name in _ENDPOINT_FIELDS}


def _text(values: Mapping[str, Any], name: str) -> str:
    """A text of the submitter's; empty where there is none."""
    value = values.get(name)
    return value if isinstance(value, str) else ""


def levels_by_agent(
    entries: Iterable[Entry], matches: Sequence[tuple[MatchSpec, MatchResult]]
) -> dict[str, Counter[str]]:
    """Agent id -> level -> how many of its matches stand at that level.

    A level belongs to a match: the highest of the bundles that hold it.

    Args:
        entries: the bundles of one protocol.
        matches: those that count.
    """
    reached: dict[str, Level] = {}
    for entry in entries:
        for spec in entry.bundle.specs:
            reached[spec.match_id] = max(reached.get(spec.match_id, "L0"), entry.level)
    found: dict[str, Counter[str]] = {}
    for spec, _ in matches:
        for agent in set(spec.seats):
            found.setdefault(agent, Counter())[reached[spec.match_id]] += 1
    return found
