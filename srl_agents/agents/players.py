"""Policies as the rollouts use them: many requests at once, replies with exact tokens.

A scripted policy makes a fresh bot for every episode and seat, seeded by the match. A model policy is
an adapter on an engine's base, an endpoint's policy a model that somebody serves; neither has a state
between turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from srl_agents.agents.prompt_file import NO_PROMPT, PromptSettings
from srl_agents.engines.protocol import Engine, Example, GenerationRequest
from srl_agents.records import Served, WeightVersion
from srl_envs import make_bot
from srl_envs.registry import Policy as TextPolicy

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.agents.endpoint import Endpoint
    from srl_agents.engines.protocol import Engine, Example, RepeatableEngine
    from srl_agents.records import WeightVersion

Message = dict[str, str]
"""One of a chat: ``role`` and ``content``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """One seat is on move."""

    observation: str
    key: tuple[int, ...]
    """What the reply is for; equal keys get equal random numbers."""
    examples: tuple[tuple[str, str], ...] = ()
    """(observation, reply) pairs that the policy is shown before the observation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What a policy wrote, with its tokens where it has any."""

    text: str
    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish: Literal["stop", "length", "scripted", "served"] = "scripted"
    """``served``: by an endpoint, which tells no tokens; `served` has what it does tell."""
    served: Served | None = None


@dataclass(frozen=True, slots=True)
class ScriptedPolicy:
    """A bot of the environment that is being played."""

    bot: str

    def player(self, env_id: str, seed: int) -> TextPolicy:
        """A fresh bot for one seat of one episode."""
        return make_bot(env_id, self.bot, seed)


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
        self, observation: str, key: tuple[int, ...], session: str = ""
    ) -> GenerationRequest:
        """What the engine is asked for one turn.

        Args:
            observation: what the reply answers.
            key: what the reply is for; equal keys get equal random numbers.
            session: of one seat of one match; a hint for caches.
        """
        return GenerationRequest(
            observation=observation,
            examples=self.examples,
            version=self.version,
            key=key,
            session=session,
        )


@dataclass(frozen=True, slots=True)
class EndpointPolicy:
    """A served model behind a prompt; it has no state between turns."""

    endpoint: Endpoint
    prompt: PromptSettings = NO_PROMPT

    def chat(self, observation: str) -> list[Message]:
        """The messages that the next reply answers."""
        system = self.prompt.system
        chat = [] if system is None else [{"role": "system", "content": system}]
        for shown, reply in self.prompt.pairs:
            chat += [{"role": "user", "content": shown}, {"role": "assistant", "content": reply}]
        return [*chat, {"role": "user", "content": observation}]


Policy = ScriptedPolicy | ModelPolicy | EndpointPolicy


def answer(
    engine: RepeatableEngine, requests: Sequence[tuple[WeightVersion | None, TurnRequest]]
) -> list[Reply]:
    """Let the model write one reply per request, all in one batch.

    Args:
        engine: samples tokens.
        requests: (version or None for the base, request) pairs.

    Returns:
        Replies in the order of the requests. A prompt that leaves no room in the model's context
        gets an empty reply, which the environment treats as malformed: the run goes on.
    """
    from srl_agents.engines.protocol import GenerationRequest  # noqa: PLC0415 - torch comes with it

    asked = [
        GenerationRequest(
            observation=request.observation,
            examples=request.examples,
            version=version,
            key=request.key,
        )
        for version, request in requests
    ]
    return [
        Reply(
            text=generation.text,
            prompt_ids=generation.prompt_ids,
            completion_ids=generation.token_ids,
            logprobs=generation.logprobs,
            finish=generation.finish,
        )
        for generation in asyncio.run(engine.generate_together(asked))
    ]
