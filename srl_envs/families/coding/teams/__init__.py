"""Teams that write programs, each seat with a part of its own."""
