"""Agreement of our rules with other implementations of the same games."""
