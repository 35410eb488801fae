"""Who enters a board: names as people write them, versions with hashes, policies that play."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaderboards.protocol import BOT, ROOT_SEED, Protocol
from srl_agents.league.agents import AgentVersion
from srl_agents.league.names import lineage
from srl_agents.policies import ModelPolicy, Policy, ScriptedPolicy, parse_model_name
from srl_agents.policies.catalog import adapter_shape, require_model
from srl_agents.policies.shown_examples import read_examples
from srl_envs import spec
from srl_envs.errors import ConfigError, UnknownPolicyError, nearest
from srl_envs.settings import dump

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.engines.base_model import BaseModel
    from srl_agents.engines.transformers_engine import TransformersEngine

SAMPLER = "inverse-cdf/1"
"""How `srl_agents.engines.token_choice` turns a reply's random numbers into tokens."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:/+\-]{0,79}")
"""What an agent may be called."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """An agent that wants a place."""

    name: str
    """Its id on the board."""
    source: str
    """A bot of the environment, a model, or MODEL+ADAPTER_FOLDER."""


@dataclass(slots=True)
class Built:
    """Agents that can play."""

    policies: dict[str, Policy]
    versions: list[AgentVersion]
    """References first, in the protocol's order, then entrants by name."""
    adapters: dict[str, Path] = field(default_factory=dict)
    """Agent id -> folder, for those that have one."""

    @property
    def bases(self) -> list[BaseModel]:
        """The loaded models, each once."""
        engines = [p.engine for p in self.policies.values() if isinstance(p, ModelPolicy)]
        return list({id(engine.base): engine.base for engine in engines}.values())


def parse_entrants(texts: Sequence[str], protocol: Protocol) -> list[Entrant]:
    """Read ``SOURCE`` or ``NAME=SOURCE``; nothing is loaded.

    Raises:
        ConfigError: a name is taken, used twice or unfit; an adapter has no folder.
        UnknownPolicyError: nothing answers to a source.
    """
    entrants = sorted((_entrant(text, protocol) for text in texts), key=lambda e: e.name)
    names = [entrant.name for entrant in entrants]
    for name in names:
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"agent name {name!r}: use up to 80 letters, digits and _.@:/+-, a letter or digit "
                "first."
            )
        if name in protocol.references:
            raise ConfigError(
                f"{name} is a reference of {protocol.name} and plays in every run: leave it out, or "
                "run without --agent for the references alone."
            )
        if names.count(name) > 1:
            raise ConfigError(
                f"agent {name!r} is given twice; write NAME=SOURCE to tell them apart."
            )
    return entrants


def _entrant(text: str, protocol: Protocol) -> Entrant:
    name, equals, source = text.partition("=")
    source = source if equals else text
    bots = spec(protocol.env).bots
    bot = source.removeprefix(BOT)
    if source.startswith(BOT) or source in bots:
        if bot not in bots:
            raise UnknownPolicyError(f"{protocol.env} has no bot {bot!r}.{nearest(bot, bots)}")
        if equals and name != BOT + bot:
            raise ConfigError(f"{text}: a bot keeps its own name, {BOT}{bot}.")
        return Entrant(BOT + bot, BOT + bot)
    wanted = parse_model_name(source)
    require_model(wanted.model)
    if wanted.adapter_folder is not None:
        adapter_shape(wanted.adapter_folder)  # says what is missing before anything is loaded
        if read_examples(wanted.adapter_folder):
            raise ConfigError(
                f"--agent {source}: this adapter was trained with examples in its prompts, which a "
                "bundle cannot hold yet. Enter one that was trained without sharing demonstrations."
            )
        return Entrant(name if equals else wanted.adapter_folder.name, source)
    return Entrant(name if equals else wanted.model, source)


def build_agents(protocol: Protocol, entrants: Sequence[Entrant], max_new_tokens: int) -> Built:
    """Policies and versions of references and entrants; a model is loaded once for all its adapters.

    Raises:
        ModelError: a model or adapter cannot be loaded.
    """
    bots = [*protocol.references, *(e.name for e in entrants if e.source.startswith(BOT))]
    built = Built(
        policies={name: ScriptedPolicy(name.removeprefix(BOT)) for name in bots},
        versions=[bot_version(name, protocol) for name in bots],
    )
    engines: dict[tuple[str, int, float], TransformersEngine] = {}
    models = [e for e in entrants if not e.source.startswith(BOT)]
    bare = {parse_model_name(e.source).model: e.name for e in models if "+" not in e.source}
    for number, entrant in enumerate(models):
        wanted = parse_model_name(entrant.source)
        shape = adapter_shape(wanted.adapter_folder)
        key = (wanted.model, *shape)
        if key not in engines:
            engines[key] = load_engine(wanted.model, shape, protocol, max_new_tokens)
        engine = engines[key]
        adapter = None
        if wanted.adapter_folder is not None:
            adapter = f"agent_{number}"  # a name of ours: ids may hold dots
            engine.base.load_adapter(adapter, wanted.adapter_folder)
            built.adapters[entrant.name] = wanted.adapter_folder
        built.policies[entrant.name] = ModelPolicy(engine, adapter)
        built.versions.append(
            AgentVersion(
                agent_id=entrant.name,
                lineage=lineage(entrant.name),
                parent=bare.get(wanted.model) if adapter else None,
                role="frozen",
                step=_step(entrant.name),
                spec=model_spec(engine, adapter, shape, protocol),
            )
        )
    order = {name: k for k, name in enumerate(protocol.references)}
    built.versions.sort(key=lambda v: (order.get(v.agent_id, len(order)), v.agent_id))
    return built


def bot_version(name: str, protocol: Protocol) -> AgentVersion:
    """The version of a bot; its code belongs to the environment's version."""
    bot = name.removeprefix(BOT)
    return AgentVersion(
        agent_id=name,
        lineage=name,
        role="anchor" if bot in protocol.anchors else "heldout" if bot == "held_out" else "frozen",
        spec={"bot": bot, "env": protocol.env},
    )


def load_engine(
    model: str, shape: tuple[int, float], protocol: Protocol, max_new_tokens: int
) -> TransformersEngine:
    """An engine that samples as the protocol says."""
    from srl_agents.engines.base_model import BaseModel  # noqa: PLC0415 - torch comes with it
    from srl_agents.engines.transformers_engine import (  # noqa: PLC0415
        SamplingSettings,
        TransformersEngine,
    )

    base = BaseModel.load(model, lora_rank=shape[0], lora_alpha=shape[1])
    decoding = protocol.decoding
    return TransformersEngine(
        base,
        SamplingSettings(
            temperature=decoding.temperature, max_new_tokens=max_new_tokens, stop=decoding.stop
        ),
    )


def model_spec(
    engine: TransformersEngine,
    adapter: str | None,
    shape: tuple[int, float],
    protocol: Protocol,
) -> dict[str, Any]:
    """What is needed to audit a model: hashes of all that decides its replies.

    Args:
        engine: that it plays on.
        adapter: on the engine's base; None is the base alone.
        shape: (rank, alpha) of the adapter; the same weights at another alpha are another agent.
        protocol: of the board.
    """
    from srl_agents.engines import catalog  # noqa: PLC0415
    from srl_agents.recipes.contents import contents_of  # noqa: PLC0415

    base = engine.base
    return {
        **contents_of(base, adapter, engine.sampling, protocol.env),
        "base_sha256": _weights_sha256(catalog.resolve(base.name)),
        "stop": list(engine.sampling.stop),
        "dtype": str(base.model.dtype).removeprefix("torch."),
        "lora": None if adapter is None else list(shape),
        "sampler": SAMPLER,
        "root_seed": ROOT_SEED,
    }


def is_model(version: AgentVersion) -> bool:
    """Whether an agent has tokens."""
    return "base" in version.spec


def version_data(version: AgentVersion) -> dict[str, Any]:
    """As the manifest holds it."""
    return dump(version)


def _weights_sha256(folder: Path) -> str:
    hashed = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            hashed.update(hashlib.file_digest(file, "sha256").digest())
    return hashed.hexdigest()


def _step(name: str) -> int:
    tail = name.rpartition("@")[2]
    return int(tail) if tail.isdecimal() and "@" in name else 0
