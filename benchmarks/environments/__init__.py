"""How hard and how fair the environments are, by their bots."""
