"""The curves of training runs as one web page."""
