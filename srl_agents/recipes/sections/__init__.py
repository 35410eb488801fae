"""The sections of a recipe: one frozen dataclass, or a few, per file."""
