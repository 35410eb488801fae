"""An engine that kills processes among the branches of an update: it looks at what was played of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.engines.protocol import Engine, Generation, GenerationRequest
from srl_agents.engines.settings import EngineSettings, EngineSite, TransformersSettings
from srl_agents.training.folder.layout import BUFFER

NAME = f"{__name__}:StruckSettings"
"""For a recipe."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StruckSettings(TransformersSettings):
    """The embedded engine of those who play what is learned from; the trainer's own strikes no process."""

    run: str = ""
    """Folder of the run."""
    parent_in: int = 0
    """Update among whose branches the process dies that started the engine's, once."""
    own_in: int = 0
    """Likewise the engine's own process."""

    def make_engine(self, site: EngineSite) -> Engine:
        """See `EngineSettings`."""
        engine: Any = TransformersSettings.make_engine(self, site)
        generate = engine.generate_together

        async def struck(requests: Sequence[GenerationRequest]) -> list[Generation]:
            if self._is_time("parent", self.parent_in):
                os.kill(os.getppid(), signal.SIGKILL)
                await asyncio.sleep(600)  # this process ends with the one that started it
            if self._is_time("own", self.own_in):
                os.kill(os.getpid(), signal.SIGKILL)
            replies: list[Generation] = await generate(requests)
            return replies

        engine.generate_together = struck
        made: Engine = engine
        return made

    def beside_generation(self) -> EngineSettings:
        """See `EngineSettings`."""
        return TransformersSettings()

    def _is_time(self, whom: str, update: int) -> bool:
        """Whether a branch of the update was played, and this was not asked before."""
        run, mark = Path(self.run), Path(self.run).with_name(f"struck_{whom}")
        if mark.exists() or not branches_in(run, update):
            return False
        mark.touch()
        return True


def branches_in(run: Path, update: int) -> int:
    """How many branches of an update the buffer of a run holds."""
    frames = run / BUFFER / f"{update:06d}.played.frames"
    return frames.read_bytes().count(b'"prefix"') if frames.exists() else 0
