"""Forged bundles: an honest one changed field by field and file by file, with every hash in order."""
