"""leaderboards."""
