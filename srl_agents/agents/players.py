"""Policies as the rollouts use them.

A scripted policy makes a fresh bot for every episode and seat, seeded by the match. A model policy is one
version of the weights behind an engine; it has no state between turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from srl_agents.engines.protocol import Engine, GenerationRequest
from srl_agents.models.prompt import EarlierTurn, Example
from srl_agents.records import WeightVersion
from srl_envs import make_bot
from srl_envs.registry import Policy as TextPolicy
from srl_envs.turns.bots import Bot


@dataclass(frozen=True, slots=True)
class ScriptedPolicy:
    """A bot of the environment that is being played."""

    bot: str
    _made: dict[str, Bot] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Environment -> a bot that was loaded for it, and never plays."""

    def player(self, env_id: str, seed: int) -> TextPolicy:
        """A fresh bot for one seat of one episode."""
        if env_id not in self._made:
            self._made[env_id] = make_bot(env_id, self.bot)
        return self._made[env_id].reseeded(seed)


@dataclass(frozen=True, slots=True)
class ModelPolicy:
    """A language model behind an engine, whichever engine it is."""

    engine: Engine
    version: WeightVersion | None = None
    """None is the model as it was loaded, or as it is served."""
    examples: tuple[Example, ...] = ()
    """Shown before every observation, behind those of the engine's own prompt; part of what the policy
    is."""

    def request(
        self,
        observation: str,
        key: tuple[int, ...],
        earlier: tuple[EarlierTurn, ...] = (),
    ) -> GenerationRequest:
        """The engine's request for one turn.

        Args:
            observation: what the reply answers.
            key: what the reply is for; equal keys get equal random numbers.
            earlier: the seat's turns until now, for engines whose prompt has a memory.
        """
        return GenerationRequest(
            observation=observation,
            examples=self.examples,
            earlier=earlier,
            version=self.version,
            key=key,
        )


Policy = ScriptedPolicy | ModelPolicy
