"""Results to ratings, intervals and diagnostics. Pure functions over arrays."""
