"""The form, the names and the size of golf programs."""
