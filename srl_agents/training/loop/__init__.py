"""The loop of a run: its stages, phases, optimizer steps, versions, evaluation and checkpoints."""
