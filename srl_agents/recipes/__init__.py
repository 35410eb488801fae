"""Runnable configurations: YAML files that map onto frozen dataclasses, and what runs them."""
