"""The program's side of a run: its process, its source, what it gives to the tests."""
