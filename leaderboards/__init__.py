"""What we claim: static leaderboards, built from league stores."""
