"""What each isolation tier separates: one run from another, and from the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SEVERAL = "processes above 1"
"""Stands beside the tiers: what a run with several processes loses."""

_PATHS = "nothing is mounted, so the interpreter runs where the host has it"
_STAT = "neither Landlock nor a filter of calls can refuse to look up one path and not another"


@dataclass(frozen=True, kw_only=True, slots=True)
class Property:
    """Something that a program can neither learn of others nor change for them."""

    text: str
    """What that is, as the end of "no program can ..."."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Tier, or `SEVERAL` -> why the property does not hold there."""


PROPERTIES: dict[str, Property] = {
    "messages": Property(text="send data or descriptors to a socket that is not its own"),
    "processes": Property(
        text="ask for clocks, limits, priorities, groups or signals of another process"
    ),
    "page_cache": Property(text="ask which pages of a shared file are in memory, or move them"),
    "file_locks": Property(text="lock a shared file, or see a lock that another run holds"),
    "futexes": Property(
        text="wait for another run, or wake it, through a page that both map",
        lost={SEVERAL: "semaphores of several processes are such futexes"},
    ),
    "open_files": Property(text="change flags or the position of a file that another run has open"),
    "machine_state": Property(text="read load, free memory or free disk of the machine"),
    "user_counts": Property(
        text="see what the kernel counts per user: queued signals, descriptors on their way, "
        "locked and huge pages"
    ),
    "host_name": Property(
        text="read the name of the host",
        lost=dict.fromkeys(("landlock", "seccomp"), "one call returns it and what programs need"),
    ),
    "host_paths": Property(
        text="read paths of the host from its own process",
        lost=dict.fromkeys(("landlock", "seccomp"), _PATHS),
    ),
    "file_metadata": Property(
        text="see existence, size or times of the host's files",
        lost=dict.fromkeys(("landlock", "seccomp"), _STAT),
    ),
    "file_contents": Property(text="read or change the host's files, those of Python aside"),
}
"""What untrusted programs may not do to each other -> where it holds, and why not elsewhere."""


def kept_apart(tier: str, processes: int = 1) -> tuple[str, ...]:
    """The properties, by name, that hold in a tier for runs with so many processes."""
    if tier == "none":
        return ()
    places = {tier, SEVERAL} if processes > 1 else {tier}
    return tuple(name for name, kept in PROPERTIES.items() if not places & kept.lost.keys())
