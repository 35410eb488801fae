"""What samples replies: the protocol and the engines behind it."""
