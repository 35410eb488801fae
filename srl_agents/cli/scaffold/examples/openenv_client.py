"""Client, action and observation, under the names by which OpenEnv's ``AutoEnv`` finds them."""

from __future__ import annotations

from srl_envs.adapters.openenv import SRLAction, SRLClient, SRLObservation


class ExampleAction(SRLAction):
    """One reply: free text with the move in it."""


class ExampleObservation(SRLObservation):
    """What the seat sees."""


class ExampleEnv(SRLClient):
    """``with ExampleEnv(base_url=...).sync() as env: env.reset(seed=7)``."""
