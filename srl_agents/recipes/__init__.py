"""Runnable configurations: settings, YAML files that map onto them, and nothing else."""
