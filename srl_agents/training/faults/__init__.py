"""What may go wrong in a run: signs, watchdogs, diagnosis and what the run does about it."""
