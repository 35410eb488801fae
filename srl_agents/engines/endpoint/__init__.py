"""Models behind OpenAI-compatible servers: the client, its limits, prices and journals."""
