"""Values of expressions, and whether two of them are equal."""
