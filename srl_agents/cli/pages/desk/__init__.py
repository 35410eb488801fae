"""A person in the browser as a model behind an OpenAI-compatible endpoint."""
