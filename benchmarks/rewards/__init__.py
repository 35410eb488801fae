"""Rewards: how often scorers are right, and what hostile replies cost them."""
