"""Eviction policies of prefix caches: what they offer, and each of them."""
