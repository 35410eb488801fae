"""A package, so that pytest puts the repository, not this folder, first: srl_envs must be the real one."""
