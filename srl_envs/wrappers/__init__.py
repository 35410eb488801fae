"""Put around an environment from `srl_envs.make`; they compose, and keep its interface.

>>> env = TurnLimit(HistoryWindow(srl_envs.make("nim-v0"), turns=2), steps=30)  # doctest: +SKIP

`srl_envs.make` does the same from plain values, which match specs and transcripts keep:

>>> env = srl_envs.make("nim-v0", wrappers=[{"kind": "TurnLimit", "steps": 30}])  # doctest: +SKIP

Array observations and numbered actions are in `srl_envs.wrappers.numeric`.
"""

from srl_envs.wrappers.base import Wrapper
from srl_envs.wrappers.history import HistoryWindow
from srl_envs.wrappers.noise import ObservationNoise
from srl_envs.wrappers.recording import Recording, load_recordings
from srl_envs.wrappers.shaping import PotentialShaping
from srl_envs.wrappers.turn_limit import TurnLimit
from srl_envs.wrappers.views import as_aec, as_single

__all__ = [
    "HistoryWindow",
    "ObservationNoise",
    "PotentialShaping",
    "Recording",
    "TurnLimit",
    "Wrapper",
    "as_aec",
    "as_single",
    "load_recordings",
]
