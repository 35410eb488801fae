"""The engine of this process: its loop over live rows, its tree of prefixes, its tiers of keys and values."""
