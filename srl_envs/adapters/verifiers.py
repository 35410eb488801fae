"""Our environments as a taskset and an environment of verifiers (``verifiers.v1``).

How the concepts map:

=========================  =======================================================================
verifiers                  here
=========================  =======================================================================
taskset, task              one environment with its options and split; one seed of it
``Env.run``                one episode
role ``player_N``          seat N: an agent, unless ``bots`` names a bot for it
interaction                the conversation of one seat: every user turn is the whole of what the seat
                           sees, every reply goes through our reply grammar
trace rewards              ``outcome`` and ``format``, recorded on the trace of each seat
trace metrics              the environment's statistics, ``forfeited``, ``invalid_replies``
=========================  =======================================================================

One agent against bots is the case where all seats but one have bots; self-play is the case without
bots, where every seat is a role of its own and by default the policy of the run. A role whose config
names a model is an opponent: it plays with that model, and its traces are marked as no training data,
which trainers on verifiers, prime-rl among them, go by. Seats that move at once are asked together and
see nothing of each other's replies.

verifiers finds a taskset by the name of a top-level module that exports it, and a name with dots does
not resolve (``verifiers.v1.utils.loaders._import_plugin`` looks for it inside its own package first,
which fails for a submodule). So a run needs a module of two lines, whose name is the taskset's id::

    from srl_envs.adapters.verifiers import SRLEnv, SRLTaskset
    __all__ = ["SRLEnv", "SRLTaskset"]

Limits. Roles are fields of a class, so there are `MOST_SEATS` of them and no more. An agent that reaches
a limit of verifiers (turns, tokens) is silent from then on, which forfeits by our rules; an agent that
fails voids the episode. Conversations grow with every turn, as each observation is complete by itself.

Source: verifiers 0.4; ``orchestrator/envs.py`` of prime-rl, which sends tasks to an environment server of
verifiers.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from srl_envs.api import making
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError, NeighbourError, nearest
from srl_envs.registry import Policy

try:
    import verifiers.v1 as vf
    from pydantic import Field
except ImportError as error:
    raise ConfigError(
        f"verifiers 0.4 or newer is needed: {install_command('verifiers')} ({error})."
    ) from None

MOST_SEATS = 6
"""Roles that `SRLEnvConfig` declares."""
_SEAT = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())
"""A game needs a conversation and no tools, so no container either."""


class SRLTasksetConfig(vf.TasksetConfig):
    """Which environment is played."""

    game: str = ""
    """A registered id, like ``connect_four-v0``."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options as in `srl_envs.make`."""
    split: Literal["train", "eval"] = "train"
    first_seed: int = 0
    """Tasks count up from it."""


class SRLData(vf.TaskData):
    """One start state."""

    game: str
    options: dict[str, Any]
    split: Literal["train", "eval"]
    seed: int


class SRLTask(vf.Task[SRLData, vf.State, vf.TaskConfig]):
    """One start state; what it pays is decided by the rules, during the run."""


class SRLTaskset(vf.Taskset[SRLTask, SRLTasksetConfig]):
    """One task per seed, without end."""

    INFINITE = True

    def __init__(self, config: SRLTasksetConfig) -> None:
        super().__init__(config)
        making.make(config.game, **config.options).close()  # what is wrong fails here

    def load(self) -> Iterator[SRLTask]:
        """The tasks, from ``first_seed`` on."""
        config = self.config
        for seed in itertools.count(config.first_seed):
            data = SRLData(
                name=f"{config.game}#{config.split}#{seed}",
                game=config.game,
                options=config.options,
                split=config.split,
                seed=seed,
            )
            yield SRLTask(data, config.task)


class SRLEnvConfig(vf.EnvConfig):
    """Players of the seats."""

    player_0: vf.AgentConfig = _SEAT
    player_1: vf.AgentConfig = _SEAT
    player_2: vf.AgentConfig = _SEAT
    player_3: vf.AgentConfig = _SEAT
    player_4: vf.AgentConfig = _SEAT
    player_5: vf.AgentConfig = _SEAT
    bots: dict[str, str] = Field(default_factory=dict)
    """Role -> bot of the environment, which plays the seat instead of an agent."""


class SRLEnv(vf.Env[SRLEnvConfig]):
    """Plays episodes of one environment; see the module for the mapping."""

    def __init__(self, config: SRLEnvConfig) -> None:
        super().__init__(config)
        game, options = self.taskset.config.game, self.taskset.config.options
        seats = making.count_seats(game, **options)
        if seats > MOST_SEATS:
            raise ConfigError(f"{game} has {seats} seats; there are {MOST_SEATS} roles.")
        roles = [f"player_{seat}" for seat in range(seats)]
        for role, bot in config.bots.items():
            if role not in roles:
                raise ConfigError(f"bots has {role!r}.{nearest(role, roles)} {game}: {roles}.")
            making.make_bot(game, bot)
        if len(config.bots) == seats:
            raise ConfigError(f"every seat of {game} has a bot; leave one to an agent.")

    async def setup(self, agents: Any) -> None:
        """Mark the seats that have a model of their own: nothing is learned from what they say."""
        for role, agent in self.config:
            if isinstance(agent, vf.AgentConfig) and agent.model is not None:
                getattr(agents, role).trainable = False

    async def run(self, task: Any, agents: Any) -> None:
        """Play the task's episode and record on each agent's trace what its seat earned.

        Raises:
            SandboxError: our machinery or an agent failed; the episode is void.
        """
        data = task.data
        env: Any = making.make(data.game, split=data.split, **data.options)
        try:
            async with contextlib.AsyncExitStack() as stack:
                talks = {
                    role: _Talk(
                        role,
                        await stack.enter_async_context(getattr(agents, role).interaction(task)),
                    )
                    for role in env.possible_agents
                    if role not in self.config.bots
                }
                earned = await self._play(env, data, talks)
                for role, talk in talks.items():
                    _record(talk.interaction.trace, earned[role])
        finally:
            env.close()

    async def _play(
        self, env: Any, data: SRLData, talks: dict[str, _Talk]
    ) -> dict[str, dict[str, dict[str, float]]]:
        bots = {role: _bot(data, role, bot) for role, bot in self.config.bots.items()}
        earned = {
            role: {"rewards": {"outcome": 0.0, "format": 0.0}, "metrics": {"invalid_replies": 0.0}}
            for role in talks
        }
        observations, _ = env.reset(seed=data.seed)
        while env.agents:
            texts = {r: seen["text"] for r, seen in observations.items() if seen["can_act"]}
            asked = [role for role in texts if role in talks]
            said = await asyncio.gather(*(talks[role].ask(texts[role]) for role in asked))
            replies = dict(zip(asked, said, strict=True))
            replies |= {role: bots[role](text) for role, text in texts.items() if role in bots}
            observations, _, _, _, infos = await asyncio.to_thread(env.step, replies)
            for role, sums in earned.items():
                _add(sums, infos[role])
        return earned


class _Talk:
    """The conversation of one seat."""

    def __init__(self, role: str, interaction: Any) -> None:
        self.role, self.interaction = role, interaction
        self._silent = False

    async def ask(self, text: str) -> str:
        """The agent's reply; nothing once one of its limits ended the conversation."""
        if self._silent:
            return ""
        segment = await self.interaction.turn(text)
        if not segment.terminated:
            return str(segment.last_reply)
        self._silent = True
        if errors := self.interaction.trace.errors:
            raise NeighbourError(f"{self.role} failed: {errors[-1].type}: {errors[-1].message}")
        return ""


def _add(sums: dict[str, dict[str, float]], info: dict[str, Any]) -> None:
    for name, value in info["reward_components"].items():
        sums["rewards"][name] += value
    sums["metrics"]["invalid_replies"] += info["invalid"] is not None
    sums["metrics"] |= {name: float(value) for name, value in info.get("statistics", {}).items()}
    if "forfeited" in info:
        sums["metrics"]["forfeited"] = float(info["forfeited"])


def _record(trace: Any, sums: dict[str, dict[str, float]]) -> None:
    for name, value in sums["rewards"].items():
        trace.record_reward(name, value)
    for name, value in sums["metrics"].items():
        trace.record_metric(name, value)


def _bot(data: SRLData, role: str, name: str) -> Policy:
    seat = int(role.rpartition("_")[2])
    seed = int(np.random.SeedSequence([data.seed, seat]).generate_state(1)[0])
    return making.make_bot(data.game, name, seed=seed)
