"""Base models and their policies: names, LoRA adapters, whole weights."""

import logging
import os

# Both must be set before the libraries are imported, and every model part imports this first.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# bitsandbytes warns on import that an optional 4-bit kernel is absent; SRL does not use it.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
