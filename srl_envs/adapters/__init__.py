"""Neighbours: their environments as ours, and ours as theirs. One module each, imported when asked for.

`open_spiel` and `textarena` go from their games to our environments, `textarena`, `trl`, `verifiers`
and `openenv` from our environments to theirs. ``docs/guides/neighbours.md`` shows each.
"""
