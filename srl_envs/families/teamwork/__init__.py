"""Seats that can only succeed together."""
