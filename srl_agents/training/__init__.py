"""The loop of a run: play, credit, update, snapshot, evaluate; versions and experience."""
