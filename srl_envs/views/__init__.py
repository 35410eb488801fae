"""Views of a game beside the parallel one: agent by agent, and one seat."""
