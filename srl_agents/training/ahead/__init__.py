"""Generation in another process, which plays matches for later updates."""
