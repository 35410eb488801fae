"""Rewards that a recipe adds to those of a game, and a learned judge, which only credit reads."""
