"""A package outside SRL that adds one of everything, a file each; here the tests put it on the path."""
