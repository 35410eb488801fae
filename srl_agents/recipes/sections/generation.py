"""Settings of generation beside training: frozen data, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from srl_agents.league.settings import require
from srl_envs.reading.settings import Removed

RESTARTS = 3
"""How often in a row, without a match that ended, the process is started again."""


@dataclass(frozen=True, kw_only=True)
class PatienceSettings:
    """When a process is taken for dead. Without slots, so that other settings may derive from it."""

    patience_s: float = 600.0
    """Seconds for a process to start, and without a match that ends, before it is taken for dead and another
    one is started. In ``ray`` also for one part, with the weights before it, and without a sign of life of
    the trainer's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationSettings(PatienceSettings):
    """Another process, with its own copy of the base, plays the matches of later updates meanwhile.

    An update's matches are ordered with the versions that are live ``ahead`` updates before it, and it waits
    until all of them have ended. So the schedule does not depend on the clock.
    """

    ahead: int = 1
    """Updates whose matches are ordered before their turn; each makes rows one update older. 0: generation
    waits for the update, and training for its matches."""
    part_matches: int = 0
    """Most matches that are played together, in whole groups; a process that dies, or a worker, loses those
    of one part. 0: those of an update, in the order ``exact`` whole, in ``free`` those not played."""
    max_staleness: int = 4
    """Steps of its learner that a row may be old when it is learned from; older rows are dropped and
    counted."""
    in_flight: Literal["keep", "switch"] = "keep"
    """What a new version does to matches that are being played: ``keep``, they end with the versions that
    they began with; ``switch``, the learners' next turns are written by the new one. Every turn records
    its version."""
    refill_limit: int = 0
    """Further start states that a learner may play per update in place of flat groups, in which all
    attempts were paid the same."""

    removed: ClassVar[Removed] = {
        "restarts": (RESTARTS, "start the run again, which goes on from its last checkpoint")
    }

    def __post_init__(self) -> None:
        for name in ("ahead", "part_matches", "max_staleness", "refill_limit"):
            value = getattr(self, name)
            require(value >= 0, f"{name}={value}: use 0 or more.")
        require(self.patience_s > 0, f"patience_s={self.patience_s}: use more than 0.")
