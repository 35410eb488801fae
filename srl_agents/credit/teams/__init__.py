"""Credit within a team and among its rivals."""
