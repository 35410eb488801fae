"""Replies worth imitating, as the tokens that a learner would read and write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Demonstration:
    """One reply to one prompt."""

    prompt_ids: tuple[int, ...]
    reply_ids: tuple[int, ...]
    """Ends with the token that ends a reply, where its author wrote one."""
    by: str
    """Policy version that wrote it, for example ``bob@3`` or ``bot:strong``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DemonstrationBatch:
    """Rows for one learner's step of imitation."""

    learner: str
    demonstrations: tuple[Demonstration, ...]

    @property
    def rows(self) -> int:
        """Number of replies."""
        return len(self.demonstrations)
