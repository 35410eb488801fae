"""Bargaining and bidding with private values."""
