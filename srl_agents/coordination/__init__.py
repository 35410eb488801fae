"""Rules that combine the adapters of several learners, before and after the optimizer step."""
