"""Resource limits of a program."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of one run. Processor time is the real limit; wall time is the backstop of a busy host.

    Raises:
        ConfigError: a limit is not a finite number above 0 or not whole where it counts things, ``files`` is
            below 8, or ``memory_mib`` below 16.
    """

    wall_s: float = 20.0
    """Seconds of wall time; keep it several times `cpu_s`, or a loaded host times out honest work."""
    cpu_s: float = 2.0
    """Seconds of processor time, all threads together."""
    memory_mib: int = 256
    """MiB of address space on top of what the interpreter itself maps."""
    output_kib: int = 1024
    """KiB each of standard output, of the returned value as JSON, and of any file written."""
    processes: int = 1
    """Processes including the program itself; 1 forbids fork. With more, the limits of processor time
    and memory hold for each process, and namespaces are needed."""
    threads: int = 128
    """Threads alive at once, those of all its processes together."""
    files: int = 64
    """File descriptors open at once."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ConfigError(f"{field.name}={value!r}: a number is needed.")
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{field.name}={value!r}: give a finite number above 0.")
            if field.type == "int" and not isinstance(value, int):
                raise ConfigError(f"{field.name}={value!r}: a whole number is needed.")
        if self.files < 8:
            raise ConfigError(f"files={self.files}: the interpreter itself needs 8.")
        if self.memory_mib < 16:
            raise ConfigError(f"memory_mib={self.memory_mib}: the interpreter itself needs 16.")
