"""Card and dice games with hidden hands."""
