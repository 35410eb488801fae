"""Attack programs that read the prompt: decision lists over its numbers and words."""
