"""Doors to other systems: our agents measured elsewhere."""
