"""The folder of a run: its files, its changes, what it exports and where it is tracked."""
