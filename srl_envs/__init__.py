"""Multi-agent text games for language models, with rewards that rules decide.

>>> import srl_envs
>>> env = srl_envs.make("connect_four-v0")
>>> srl_envs.play(env, {0: "strong", 1: "middle"}, seed=7).outcomes  # doctest: +SKIP
(1.0, -1.0)
"""

from srl_envs import families as _families  # noqa: F401 - registers the built-in environments
from srl_envs.api.episode import Step, Transcript, load_transcript, play, replay, rotate_seats
from srl_envs.api.making import make, make_aec, make_bot, make_single
from srl_envs.making_vectors import make_vec
from srl_envs.registry import EnvSpec, list_envs, register, spec
from srl_envs.turns.grammar import action

__version__ = "0.1.0"

__all__ = [
    "EnvSpec",
    "Step",
    "Transcript",
    "action",
    "list_envs",
    "load_transcript",
    "make",
    "make_aec",
    "make_bot",
    "make_single",
    "make_vec",
    "play",
    "register",
    "replay",
    "rotate_seats",
    "spec",
]
