"""What the sections of a recipe may not be together."""
