"""Programs that the probes hand to the sandbox, and the oracle of their verdicts."""
