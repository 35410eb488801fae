"""The layers around a program: namespaces, filters, limits, identities."""
