"""The answer matcher: finds the answer in a reply and compares it with the reference."""
