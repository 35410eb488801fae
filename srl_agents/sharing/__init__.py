"""What policies can learn from what others wrote: transcripts as examples, as rows, as pairs."""
