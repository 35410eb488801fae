"""What policies are made of: LoRA adapters or whole weights on one base."""
