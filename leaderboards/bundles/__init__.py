"""Bundles: play a protocol, write the claim, read it and check it."""
