"""The documentation of this version: `srl docs`."""
