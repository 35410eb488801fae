"""How values cross between processes that do not trust each other."""
