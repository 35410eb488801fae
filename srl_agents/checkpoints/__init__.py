"""Save, resume, recover: atomic, verified, free of pickle."""

from srl_agents.checkpoints.folder import (
    Checkpoint,
    best,
    exist,
    latest,
    load,
    newest_step,
    remove_entry,
    save,
    set_aside,
    state_of,
    step_of,
    steps,
)
from srl_agents.checkpoints.frozen import changed_files, check_frozen, keep_frozen
from srl_agents.own_folders import rename_durably

__all__ = [
    "Checkpoint",
    "best",
    "changed_files",
    "check_frozen",
    "exist",
    "keep_frozen",
    "latest",
    "load",
    "newest_step",
    "remove_entry",
    "rename_durably",
    "save",
    "set_aside",
    "state_of",
    "step_of",
    "steps",
]
