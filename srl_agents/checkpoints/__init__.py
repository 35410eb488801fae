"""Save, resume, recover: atomic, verified, free of pickle."""

from srl_agents.checkpoints.folder import Checkpoint, latest, load, rename_durably, save

__all__ = ["Checkpoint", "latest", "load", "rename_durably", "save"]
