"""Answers in words: units, quantities, spelled numbers, hedges."""
