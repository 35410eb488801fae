"""Runs of agents that play and are rated, and do not learn."""
