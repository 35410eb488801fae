"""Completion of commands and options in a shell: `srl completion`."""
