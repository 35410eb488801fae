"""What callers use: make environments by name, play, record and replay whole episodes."""
