"""Outcome of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Status = Literal[
    "ok",
    "exception",
    "timeout",
    "memory",
    "output_limit",
    "crashed",
    "refused",
    "infrastructure",
]

_SHOWN = 120  # characters of a value or an output in repr


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Outcome:
    """One run of a program: what it claims (`value`, `stdout`) and what we measured ourselves."""

    status: Status
    """``ok``: it ended by itself without an error. ``exception``: it raised, exited with another
    code than 0, or returned a value that is not JSON. ``timeout``, ``memory``,
    ``output_limit``: a limit of `Limits`. ``crashed``: it died of a signal or broke the protocol.
    ``refused``: it was never started, because of what was asked, or it gave assert tests an object
    that they cannot judge; `passed` is None only where the tests could judge no program.
    ``infrastructure``: our fault, even after a second try; say nothing about the program."""
    value: Any = None
    """What the function returned, as plain Python data; None unless ``ok``."""
    stdout: str = ""
    """Standard output as UTF-8; bytes that are not UTF-8 are replaced."""
    message: str = ""
    """Short reason, such as ``ValueError: negative``; at most 300 characters."""
    passed: bool | None = None
    """Verdict where there was something to compare with; None without, and where the fault is ours."""
    cpu_s: float = 0.0
    """Seconds of processor time, user and system."""
    peak_mib: float = 0.0
    """MiB resident at the peak, the interpreter included."""
    isolation: tuple[str, ...] = ()
    """Layers that were in force while the program ran, outermost first."""

    def __repr__(self) -> str:
        parts: list[str] = [self.status]
        if self.passed is not None:
            parts.append(f"passed={self.passed}")
        if self.status == "ok":
            parts.append(f"value={_short(self.value)}")
        if self.stdout:
            parts.append(f"stdout={_short(self.stdout)}")
        if self.message:
            parts.append(f"message={_short(self.message)}")
        return f"Outcome({', '.join(parts)}, cpu_s={self.cpu_s:.3f}, peak_mib={self.peak_mib:.0f})"


def _short(value: Any) -> str:
    """`repr` that neither raises nor takes long, whatever a program returned."""
    if isinstance(value, (list, tuple, dict, set)) and len(value) > _SHOWN:
        return f"<{type(value).__name__} of {len(value)}>"
    try:
        text = repr(value[:_SHOWN] if isinstance(value, (str, bytes)) else value)
    except (ValueError, RecursionError):  # an integer past the digit limit; nesting
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN + 2 else text[:_SHOWN] + "…"
