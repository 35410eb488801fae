"""A room full of documents, and what is asked about them."""
