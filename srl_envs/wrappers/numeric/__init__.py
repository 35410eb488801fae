"""Numeric twins: arrays in, numbered actions out, for learners that read no text.

What a twin's array holds is read from the text that the seat sees (`Features.read`), so it can know
nothing that a text policy in the same seat does not.

>>> env = make_single("connect_four-v0", opponents={1: "middle"})  # doctest: +SKIP
"""

from srl_envs.wrappers.numeric.features import (
    Features,
    Reading,
    features_of,
    list_numeric,
)
from srl_envs.wrappers.numeric.policies import Chooser, sb3_chooser, text_policy
from srl_envs.wrappers.numeric.views import (
    NumericAEC,
    NumericParallel,
    NumericSingle,
    make_aec,
    make_parallel,
    make_single,
)

__all__ = [
    "Chooser",
    "Features",
    "NumericAEC",
    "NumericParallel",
    "NumericSingle",
    "Reading",
    "features_of",
    "list_numeric",
    "make_aec",
    "make_parallel",
    "make_single",
    "sb3_chooser",
    "text_policy",
]
