"""The process that plays beside training, which strikes itself once: in the middle of reading new weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load

from srl_agents.training.ahead import player as generation_process
from srl_agents.transports import files
from tests.faults.matrix_cells import STRUCK, STRUCK_FAULT, STRUCK_LOG, strike

_FIRST_VERSIONS = 2
"""That are read before: one of each learner."""


def main(arguments: Sequence[str]) -> None:
    """As that of the real process."""
    log, whole, calls = Path(os.environ[STRUCK_LOG]), load, [0]

    def broken(*given: Any) -> Any:
        tensors = whole(*given)
        calls[0] += 1
        if calls[0] > _FIRST_VERSIONS and STRUCK not in log.read_text():
            with log.open("a") as file:
                file.write(STRUCK)
            strike(os.environ[STRUCK_FAULT])
        return tensors

    reader: Any = files
    reader.load = broken
    generation_process.main(arguments)
