"""The public API of `srl_agents`: begin and read runs, write training loops, talk to agents."""
