"""A run on a Ray cluster: what each role asks for, the trainer and the workers."""
