"""A package outside SRL that adds one of everything, a file each; an installer would put it on the path."""
