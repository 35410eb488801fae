"""Who meets whom, in which game, and who replaces the best."""
