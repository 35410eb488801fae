"""Recipes: settings, and YAML files that map onto them."""
