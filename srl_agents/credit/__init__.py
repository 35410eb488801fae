"""Rewards to advantages, and advantages to training batches. Numpy only."""
