"""Adapters between SRL and other libraries, in both directions. One module each, imported on use.

`open_spiel` and `textarena` go from their games to our environments, `textarena`, `trl`, `verifiers`
and `openenv` from our environments to theirs. ``docs/guides/neighbours.md`` shows each.
"""
