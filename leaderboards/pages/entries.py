"""Origin of a board's rows: submitter, conditions of play and level of checks of each agent.

All of it is for reading and moves no number. Texts are the submitter's words: the page shows them as
text and never as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from leaderboards.boards.archive import Entry
from leaderboards.boards.publishing import Attempts
from leaderboards.bundles.agent_specs import is_served
from leaderboards.bundles.submission import Bundle
from leaderboards.contents.served import Reports
from leaderboards.keys import fingerprint
from srl_agents.agents.contents import ENDPOINT, THINKING
from srl_agents.league.agents import AgentVersion


def described_entries(
    entries: Iterable[Entry],
    registered: Attempts,
    used: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Agent id -> how it came in: of the first bundle that entered it.

    References play in everybody's bundles, so only a bundle without entrants counts as their origin.

    Args:
        entries: the bundles of one protocol.
        registered: attempts in the board's log, from `publishing.attempts`.
        used: (root of a bundle, agent) -> what its endpoint reported in all, from `usage_of`.

    Returns:
        The values of ``entry`` in ``data.json``; see docs/design/pages.md. ``signed`` holds where every
        bundle of the agent is.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in sorted(entries, key=lambda each: str(each.verified["published"])):
        bundle = entry.bundle
        for agent in bundle.entrants or bundle.agents:
            described = _described(entry, agent)
            if described["endpoint"] is not None:
                described["endpoint"]["usage"] = (used or {}).get(
                    (entry.bundle.root, agent.agent_id)
                )
            if bundle.entrants:
                described["attempts"] = _attempts(bundle, agent, registered)
            known = found.setdefault(agent.agent_id, described)
            known["signed"] &= described["signed"]
    return found


def _attempts(bundle: Bundle, agent: AgentVersion, registered: Attempts) -> dict[str, int]:
    """How often this agent was registered for this protocol, how many agents its owner registered there,
    and how many tries the owner declares."""
    owner, protocol = _owner(bundle), bundle.protocol.name
    return {
        "registered": registered.count(owner, protocol, agent.agent_id),
        "owners": registered.of_owner[owner, protocol],
        "declared": bundle.claim["declared"]["attempts"],
    }


def _owner(bundle: Bundle) -> str:
    return bundle.ticket.request.owner if bundle.ticket else ""


def _described(entry: Entry, agent: AgentVersion) -> dict[str, Any]:
    declared, made = entry.bundle.claim["declared"], entry.bundle.manifest["provenance"]
    owner = _owner(entry.bundle)
    return {
        "submitter": _text(declared, "submitter"),
        "owner": fingerprint(owner) if owner else "",
        "maker": entry.bundle.ticket.request.maker if entry.bundle.ticket else "",
        "attempts": None,
        "endpoint": _endpoint(agent.spec),
        "training_data": _text(declared, "training_data"),
        **{name: _text(made, name) for name in ("commit", "command", "started", "srl")},
        "verified": _text(entry.verified, "when"),
        "signed": "signature" in entry.verified,
    }


def usage_of(entries: Iterable[Entry]) -> dict[tuple[str, str], dict[str, Any]]:
    """(root of a bundle, agent) -> what its endpoint reported in all, and what that cost."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for bundle in (entry.bundle for entry in entries):
        if not any(is_served(agent) for agent in bundle.entrants):
            continue
        reports = Reports()
        for record in bundle.records():
            reports.add(record.spec.seats, record.served)
        for name, usage in reports.usage().items():
            price = bundle.prices.get(name)
            found[bundle.root, name] = usage | {
                "currency": price.currency if price else "",
                "price_date": price.date if price else "",
                "price_source": price.source if price else "",
                "seconds": bundle.manifest["provenance"].get("seconds", {}).get(name),
            }
    return found


def _endpoint(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Endpoint that answered for the agent, if any; its weights cannot be proved."""
    served = spec.get(ENDPOINT)
    if served is None:
        return None
    url = _text(served, "url")
    return {
        "provider": _host(url),
        "model": _text(served, "model"),
        "dated_model": _text(served, "reported"),
        "url": url,
        "thinking": _thinking(spec.get(THINKING)),
    }


def _thinking(thinking: Mapping[str, Any] | None) -> str:
    """What was asked for beside prompt and sampling; empty where that is nothing."""
    if thinking is None:
        return ""
    return f"{thinking['max_thought_tokens']} tokens for thoughts, fields {thinking['extra']}"


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # an address that is none
        return ""


def _text(values: Mapping[str, Any], name: str) -> str:
    """A text of the submitter's; empty where there is none."""
    value = values.get(name)
    return value if isinstance(value, str) else ""
