"""What a recipe adds to the rewards of a game, and what a learned judge does, for credit alone."""
