"""Static leaderboards, built from league stores and boards of verified bundles."""
