"""What a run needs in memory and time, said before it begins."""
