"""Runs and boards on a model hub: what may travel, and how it goes there and comes back."""
