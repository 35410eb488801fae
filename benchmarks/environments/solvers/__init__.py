"""Games that can be solved: what an equilibrium or an optimum is worth, and how far each bot is from it."""
