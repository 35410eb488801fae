"""Long games over land, in which little is seen at a time."""
