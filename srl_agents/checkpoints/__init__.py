"""Save, resume, recover: atomic, verified, free of pickle."""

from srl_agents.checkpoints.folder import Checkpoint, best, latest, load, rename_durably, save

__all__ = ["Checkpoint", "best", "latest", "load", "rename_durably", "save"]
