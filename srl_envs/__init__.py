"""srl_envs."""
