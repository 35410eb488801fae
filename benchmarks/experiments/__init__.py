"""Experiments that were announced before their first run: arms, seeds, rows, statistics and the report."""
