"""Forward passes of a learning step: rows in one sequence, heads, log-probabilities."""
