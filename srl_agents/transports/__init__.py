"""How new weights get from a trainer to the engines."""
