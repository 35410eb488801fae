"""A recorded episode as one web page."""
