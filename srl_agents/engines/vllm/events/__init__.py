"""What a vLLM server publishes about its prefix cache."""
