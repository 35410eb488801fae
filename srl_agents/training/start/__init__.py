"""Before the first update: checks, plan, first adapters and imitation."""
