"""The format checker: what a reply must look like, and whether it does."""
