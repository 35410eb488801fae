"""Games of words."""
