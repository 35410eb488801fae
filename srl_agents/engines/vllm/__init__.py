"""vLLM as an engine: a server that the run starts or reaches, or vLLM inside this process."""
