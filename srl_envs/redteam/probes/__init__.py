"""Probes of an attack: each looks for one kind of mistake."""
