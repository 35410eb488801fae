"""Matches, ratings and opponents of a league."""
