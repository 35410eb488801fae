"""What only a card can show: every step of `make gpu`."""
