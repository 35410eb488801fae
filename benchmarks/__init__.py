"""What we measure: speed, memory, learning."""
