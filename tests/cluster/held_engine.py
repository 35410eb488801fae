"""An engine that takes and plays no version before the test lets it: what workers do stands still there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.engines.protocol import Engine, Generation, GenerationRequest
from srl_agents.engines.settings import EngineSettings, EngineSite, TransformersSettings
from srl_agents.records import WeightUpdate

ALL = 10**6
"""More updates than a test has."""
_LOOK_S = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldSettings(TransformersSettings):
    """The embedded engine of those who play what is learned from; the trainer's own is not held."""

    let: str = ""
    """File with the number of updates whose versions may be taken, and of those that may be played."""

    def make_engine(self, site: EngineSite) -> Engine:
        """See `EngineSettings`."""
        engine: Any = TransformersSettings.make_engine(self, site)
        install, generate = engine.install, engine.generate_together

        async def install_held(update: WeightUpdate) -> None:
            while update.version.number >= _let(Path(self.let))[0]:
                await asyncio.sleep(_LOOK_S)
            await install(update)

        async def generate_held(requests: Sequence[GenerationRequest]) -> list[Generation]:
            numbers = [asked.version.number for asked in requests if asked.version is not None]
            while max(numbers, default=-1) >= _let(Path(self.let))[1]:
                await asyncio.sleep(_LOOK_S)
            replies: list[Generation] = await generate(requests)
            return replies

        engine.install, engine.generate_together = install_held, generate_held
        made: Engine = engine
        return made

    def beside_generation(self) -> EngineSettings:
        """See `EngineSettings`."""
        return TransformersSettings()


def allow(let: Path, *, taken: int, played: int) -> None:
    """Let workers take the versions of so many updates, and play so many."""
    let.write_text(f"{taken} {played} .")


def _let(let: Path) -> tuple[int, int]:
    try:
        taken, played, _ = let.read_text().split()
    except (FileNotFoundError, ValueError):  # the file is absent or half written
        return 0, 0
    return int(taken), int(played)
