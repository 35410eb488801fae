"""Boards: folders of verified bundles, and what an operator does with them."""
