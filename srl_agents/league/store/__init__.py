"""Matches and agents of a league in one SQLite file."""
