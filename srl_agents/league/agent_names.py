"""Names of learners' versions in matches and in the league's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from srl_agents.records import label_of
from srl_envs.errors import ConfigError, nearest


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
