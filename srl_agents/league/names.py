"""How versions of learners are called in matches and in the league's records."""

from __future__ import annotations


def version_id(learner: str, version: int) -> str:
    """Policy id of one version of a learner."""
    return f"{learner}@{version}"


def lineage(policy: str) -> str:
    """The learner that a version belongs to; other policies are their own lineage."""
    return policy.partition("@")[0]


def live_key(main: str) -> str:
    """Under which games against a main's present versions are counted; no policy id starts so."""
    return f"live:{main}"
