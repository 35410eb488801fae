"""Estimators that compare the alternatives of a decision, which branches played to the end."""
