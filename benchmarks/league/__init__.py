"""How right the league's numbers are, how fast, and what survives a crash."""
