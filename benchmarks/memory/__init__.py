"""Bytes and seconds of what training holds."""
