"""Versions of agents: their contents, lineage and role, and their names in matches and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from srl_agents.records import digest, label_of
from srl_envs.errors import ConfigError, nearest

Role = Literal[
    "main", "main_exploiter", "league_exploiter", "partner", "anchor", "frozen", "heldout"
]
"""``anchor`` defines the rating zero; ``heldout`` is for rating only and never met in training;
``partner`` is met in cooperative games and never trained."""

_LABELS = frozenset({"base"})
"""Keys of an `AgentVersion.spec` that name something whose hash stands beside them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentVersion:
    """One immutable version of an agent; what sits in a seat."""

    agent_id: str
    """As in `MatchSpec.seats`: ``str`` of a `WeightVersion`, ``bot:middle``, a base model's name."""
    lineage: str
    """Who it is a version of, for example ``alice``; a learning curve joins one lineage."""
    parent: str | None = None
    """Agent id it was trained from."""
    role: Role
    step: int = 0
    """Optimizer steps of its lineage so far."""
    spec: dict[str, Any] = field(default_factory=dict)
    """What is needed to build it again; see `srl_agents.agents.contents`."""

    def __post_init__(self) -> None:
        if not self.agent_id or not self.lineage:
            raise ConfigError(f"agent {self.agent_id!r}: agent_id and lineage must not be empty.")
        if self.role not in get_args(Role):
            raise ConfigError(
                f"agent {self.agent_id!r}: role {self.role!r}; use {', '.join(get_args(Role))}."
            )
        if self.step < 0:
            raise ConfigError(f"agent {self.agent_id!r}: step={self.step} is negative.")

    @property
    def contents(self) -> str:
        """Digest of the contents: two agents with one digest play alike, whatever they are called."""
        return contents_digest(self.spec)


def contents_digest(spec: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of what an agent is, as far as it decides replies; labels are left out."""
    return digest({key: value for key, value in spec.items() if key not in _LABELS})


def labels(agent_ids: Iterable[str]) -> dict[str, str]:
    """Agent id -> what tables show: its label, or the whole id where two would read alike."""
    ids = list(dict.fromkeys(agent_ids))
    count = Counter(map(label_of, ids))
    return {name: label if count[label := label_of(name)] == 1 else name for name in ids}


def find_agent(text: str, agent_ids: Iterable[str]) -> str:
    """The agent id that an id or a label names.

    Raises:
        ConfigError: no agent has this name, or several have it.
    """
    ids = list(dict.fromkeys(agent_ids))
    if text in ids:
        return text
    found = [name for name in ids if label_of(name) == text]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{text!r} may be {' or '.join(found)}: give the whole id.")
    known = [*map(label_of, ids)]
    raise ConfigError(
        f"no agent {text!r}.{nearest(text, known)} There are: {', '.join(known) or 'none'}."
    )


def lineage(policy: str) -> str:
    """The learner that a version belongs to; other policies are their own lineage."""
    return policy.partition("@")[0]


def live_key(main: str) -> str:
    """Under which games against a main's present versions are counted; no policy id starts so."""
    return f"live:{main}"
