"""The test's side of a run: the suite, stand-ins, and what the program answers."""
