"""Threads, open files, child processes and tensors of this process; kits compare them after `close`."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

from srl_agents.testing.advice import require

_SMALL_BYTES = 1024
"""Tensors that may stay, such as the ids of end tokens."""
_SETTLING_S = 2.0
"""Longest wait for threads and child processes that are ending."""


@dataclass(frozen=True, slots=True)
class Held:
    """Counts of one moment."""

    threads: int
    """Without those of an event loop's own executor, which end with the loop."""
    descriptors: int
    """Open files, sockets and pipes."""
    children: int
    """Child processes, those included that ended and were not waited for."""
    tensor_bytes: int
    """Bytes of all storages of torch that Python objects refer to, each counted once."""


def held() -> Held:
    """Count now, after a garbage collection."""
    gc.collect()
    descriptors = [_target(entry) for entry in Path("/proc/self/fd").iterdir()]
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return Held(
        threads=sum(not t.name.startswith("asyncio_") for t in threading.enumerate()),
        descriptors=Counter(target != "" for target in descriptors)[True],
        children=len(children),
        tensor_bytes=_tensor_bytes(),
    )


def require_freed(before: Held, what: str) -> None:
    """Require that no count is above an earlier one, now or within two seconds.

    Raises:
        ConformanceError: names what is still held.
    """
    end = time.monotonic() + _SETTLING_S
    while (kept := _more(before, held())) and time.monotonic() < end:
        time.sleep(0.05)
    require(not kept, f"{what}: {', '.join(kept)}")


def _more(before: Held, now: Held) -> list[str]:
    counts = [(f.name, getattr(before, f.name), getattr(now, f.name)) for f in fields(Held)]
    return [
        f"{name.replace('_', ' ')} went from {old} to {new}"
        for name, old, new in counts
        if new > old + (_SMALL_BYTES if name == "tensor_bytes" else 0)
    ]


def _target(entry: Path) -> str:
    """What a descriptor refers to; empty for one that is closed meanwhile, such as that of the listing."""
    try:
        return os.readlink(entry)
    except FileNotFoundError:
        return ""


def _tensor_bytes() -> int:
    torch = sys.modules.get("torch")
    if torch is None:
        return 0
    storages = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and thing.device.type != "meta":
            try:
                storage = thing.untyped_storage()
            except NotImplementedError:  # oneDNN's tensors have no storage that Python can see
                continue
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())
