"""Rubrics: several scorers with weights become one reward."""
