"""Transcripts of other policies as examples, as rows, and as pairs."""
