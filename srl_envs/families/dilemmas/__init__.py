"""Repeated games of mixed motive: dilemmas, shared goods, shared stocks, split forces."""
