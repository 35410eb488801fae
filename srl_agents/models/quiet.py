"""Keeps the noise of third-party libraries off the user's terminal while a model is loaded."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging as transformers_logging


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Inside: no progress bars of transformers, and no known false alarms."""
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # PEFT 0.21 and TRL 1.16 use names that transformers 5.23 has changed.
            warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*")
            # It fears for PEFT's own loading, by name; adapters are read by `BaseModel` here.
            warnings.filterwarnings("ignore", message="Adapter name .* should not be contained")
            yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()
