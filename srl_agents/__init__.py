"""srl_agents."""
