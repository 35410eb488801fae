"""Replay of request traces on caches, nodes and clusters."""
