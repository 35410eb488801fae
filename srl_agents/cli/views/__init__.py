"""Views in the terminal: episodes, transcripts and runs."""
