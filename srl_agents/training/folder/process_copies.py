"""Where the processes of one run write: the first in its folder, the others in copies that go again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from srl_agents.coordination.processes import Processes
from srl_agents.own_folders import scratch


@contextmanager
def own_folder(folder: Path, processes: Processes) -> Iterator[Path]:
    """The folder of this process.

    All begin with what the run's folder holds, so a run goes on from its checkpoints in any number of
    processes; what the others write is the same as what the first writes, and is thrown away.

    Args:
        folder: of the run; every process must be able to read it.
        processes: of the run.
    """
    if processes.first:
        processes.gather(None)  # no process writes before all have read
        yield folder
        return
    with scratch("process") as parent:
        own = parent / folder.name
        if folder.is_dir():
            shutil.copytree(folder, own, symlinks=True, ignore=shutil.ignore_patterns("*.lock"))
        processes.gather(None)
        yield own
