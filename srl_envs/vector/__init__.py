"""Many episodes of one environment at once, in this process or in several (`srl_envs.make_vec`)."""

from srl_envs.vector.batch import episode_seed
from srl_envs.vector.vector_env import VectorEnv, VectorStep

__all__ = ["VectorEnv", "VectorStep", "episode_seed"]
