"""Who enters a board: names as people write them, versions with hashes, policies that play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaderboards.agent_specs import API, ENDPOINT, SAMPLER, SHOWN, Contents, bot_version
from leaderboards.bases import base_hint
from leaderboards.names import confused, default_name, name_fault
from leaderboards.protocol import BOT, ROOT_SEED, Protocol
from leaderboards.roster import roster
from srl_agents.agents import (
    EndpointPolicy,
    ModelPolicy,
    Policy,
    ScriptedPolicy,
    parse_model_name,
)
from srl_agents.agents.endpoint import Endpoint, EndpointSettings
from srl_agents.agents.prompt_file import (
    NO_PROMPT,
    PROMPT,
    PromptSettings,
    read_prompt,
    read_prompt_file,
)
from srl_agents.agents.resolver import adapter_shape, require_model
from srl_agents.league.agents import AgentVersion
from srl_agents.training.run_folder import RECIPE
from srl_agents.yaml_files import read_yaml
from srl_envs import spec
from srl_envs.errors import ConfigError, UnknownPolicyError, nearest
from srl_envs.registry import no_bot
from srl_envs.settings import build, dump

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.engines.transformers_engine import TransformersEngine
    from srl_agents.models.base_model import BaseModel

Shape = tuple[int, float]
"""Rank and alpha of an adapter."""
_EngineKey = tuple[str, Shape, str | None]
"""Model, shape of its adapters, system message."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """An agent that wants a place."""

    name: str
    """Its id on the board."""
    source: str
    """A bot of the environment, a model, MODEL+ADAPTER_FOLDER, or ``endpoint:MODEL@URL``."""
    prompt: PromptSettings = NO_PROMPT
    """What a model is shown before every observation."""


@dataclass(slots=True)
class Built:
    """Agents that can play."""

    policies: dict[str, Policy]
    versions: list[AgentVersion] = field(default_factory=list)
    """References first, in the protocol's order, then entrants by name."""
    adapters: dict[str, Path] = field(default_factory=dict)
    """Agent id -> folder, for those that have one."""

    @property
    def bases(self) -> list[BaseModel]:
        """The loaded models, each once."""
        engines = [p.engine for p in self.policies.values() if isinstance(p, ModelPolicy)]
        return list({id(engine.base): engine.base for engine in engines}.values())


def parse_entrants(
    texts: Sequence[str], protocol: Protocol, prompts: Sequence[str] = ()
) -> list[Entrant]:
    """Read ``SOURCE`` or ``NAME=SOURCE``; nothing is loaded.

    Args:
        texts: who enters.
        protocol: what they play.
        prompts: ``FILE`` for all models or ``NAME=FILE`` for one; see `prompt_from`. An adapter that
            was trained behind a prompt brings it along.

    Raises:
        ConfigError: a name is taken, used twice or unfit; an adapter has no folder; a prompt is for
            nobody, or contradicts what an adapter brings.
        UnknownPolicyError: nothing answers to a source.
    """
    entrants = sorted((_entrant(text, protocol) for text in texts), key=lambda e: e.name)
    names = [entrant.name for entrant in entrants]
    for name in names:
        if name in protocol.references:
            raise ConfigError(
                f"{name} is a reference of {protocol.name} and plays in every run: leave it out, or "
                "run without --agent for the references alone."
            )
        if names.count(name) > 1:
            raise ConfigError(
                f"agent {name!r} is given twice; write NAME=SOURCE to tell them apart."
            )
    for entrant in entrants:
        if not entrant.source.startswith(BOT) and (wrong := name_fault(entrant.name)):
            raise ConfigError(f"agent name {entrant.name!r}: {wrong}.")
    if pair := confused([*protocol.references, *names]):
        raise ConfigError(
            f"agents {pair[0]!r} and {pair[1]!r}: their names read alike; rename one."
        )
    return _prompted(entrants, prompts)


def _prompted(entrants: Sequence[Entrant], texts: Sequence[str]) -> list[Entrant]:
    """The entrants with the prompts that the command names."""
    found = {entrant.name: entrant for entrant in entrants}
    models = [name for name, entrant in found.items() if not entrant.source.startswith(BOT)]
    named: dict[str, Path] = {}
    general: list[Path] = []
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or Path(text).exists():
            general.append(Path(text))
        elif name not in models:
            raise ConfigError(f"--prompt {text}: no model {name!r} enters.{nearest(name, models)}")
        else:
            named[name] = Path(file)
    if len(general) + len(named) < len(texts) or len(general) > 1:
        raise ConfigError("--prompt: give one file for all models, and one per AGENT=FILE.")
    if general and not models:
        raise ConfigError(f"--prompt {general[0]}: no model enters; bots read no prompt.")
    for path in general:
        prompt = prompt_from(path)
        for name in models:
            if name not in named and found[name].prompt not in (NO_PROMPT, prompt):
                raise ConfigError(
                    f"--prompt {path}: {name} was trained behind another prompt, the one in its "
                    f"folder. Leave it that, with AGENT={path} for the other models, or say "
                    f"{name}={path}."
                )
            found[name] = replace(found[name], prompt=prompt)
    for name, path in named.items():
        found[name] = replace(found[name], prompt=prompt_from(path))
    return list(found.values())


def prompt_from(path: Path) -> PromptSettings:
    """The prompt in a ``prompt.json``, a recipe, or a folder (adapter or run) that holds one of them.

    Raises:
        ConfigError: there is none, or it shows nothing.
    """
    if path.is_dir():
        path = path / PROMPT if (path / PROMPT).is_file() else path / RECIPE
    if path.suffix == ".json":
        prompt = read_prompt_file(path)
    else:
        prompt = build(PromptSettings, read_yaml(path).get("prompt", {}), f"{path}: prompt")
    if prompt == NO_PROMPT:
        raise ConfigError(f"--prompt {path}: it has neither a system message nor examples.")
    return prompt


def _entrant(text: str, protocol: Protocol) -> Entrant:
    name, equals, source = text.partition("=")
    source = source if equals else text
    bots = spec(protocol.env).bots
    bot = source.removeprefix(BOT)
    if source.startswith(BOT) or source in bots:
        if bot not in bots:
            raise UnknownPolicyError(no_bot(spec(protocol.env), bot))
        if equals and name != BOT + bot:
            raise ConfigError(f"{text}: a bot keeps its own name, {BOT}{bot}.")
        return Entrant(BOT + bot, BOT + bot)
    if source.startswith(f"{ENDPOINT}:"):
        model, url = _served(source)
        return Entrant(name if equals else default_name(model), endpoint_source(url, model))
    wanted = parse_model_name(source)
    require_model(wanted.model)
    if wanted.adapter_folder is not None:
        adapter_shape(wanted.adapter_folder)  # says what is missing before anything is loaded
        prompt = read_prompt(wanted.adapter_folder)
        return Entrant(name if equals else wanted.adapter_folder.name, source, prompt)
    return Entrant(name if equals else default_name(wanted.model), source)


def endpoint_source(url: str, model: str) -> str:
    """The source of a served model.

    Raises:
        ConfigError: the address is none, or holds what should not be written down.
    """
    EndpointSettings(url=url, model=model)
    return f"{ENDPOINT}:{model}@{url}"


def _served(source: str) -> tuple[str, str]:
    """(model, address) of a served model; a model's name may hold an ``@``, an address does not."""
    model, _, url = source.removeprefix(f"{ENDPOINT}:").rpartition("@")
    return model, url


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """How endpoints are asked; no part of what an agent is."""

    concurrency: int = 8
    """Requests at once."""
    timeout_s: float = 120.0
    """For one reply."""


def build_agents(
    protocol: Protocol,
    entrants: Sequence[Entrant],
    max_new_tokens: int,
    asking: Asking | None = None,
) -> Built:
    """Policies and versions of references and entrants; a model is loaded once for all its adapters.

    Endpoints are asked for a token each before any model is loaded.

    Raises:
        ModelError: a model or adapter cannot be loaded, or an endpoint does not answer.
    """
    bots = [*protocol.references, *(e.name for e in entrants if e.source.startswith(BOT))]
    built = Built(
        policies={name: ScriptedPolicy(name.removeprefix(BOT)) for name in bots},
    )
    specs: dict[str, Contents] = {name: bot_version(name, protocol).spec for name in bots}
    for entrant in entrants:
        if entrant.source.startswith(f"{ENDPOINT}:"):
            endpoint = _endpoint(entrant, protocol, max_new_tokens, asking or Asking())
            built.policies[entrant.name] = EndpointPolicy(endpoint, entrant.prompt)
            specs[entrant.name] = _endpoint_spec(entrant, endpoint, protocol)
    engines: dict[_EngineKey, TransformersEngine] = {}
    models = [e for e in entrants if not e.source.startswith((BOT, f"{ENDPOINT}:"))]
    shapes = _shapes(models)
    for number, entrant in enumerate(models):
        wanted = parse_model_name(entrant.source)
        shape = shapes[entrant.name]
        key = (wanted.model, shape, entrant.prompt.system)
        if key not in engines:
            engines[key] = load_engine(*key, protocol, max_new_tokens)
        engine = engines[key]
        adapter = None
        if wanted.adapter_folder is not None:
            adapter = f"agent_{number}"  # a name of ours: ids may hold dots
            engine.base.load_adapter(adapter, wanted.adapter_folder)
            built.adapters[entrant.name] = wanted.adapter_folder
        policy = ModelPolicy(engine, adapter, entrant.prompt.pairs)
        built.policies[entrant.name] = policy
        specs[entrant.name] = model_spec(policy, shape, entrant.prompt, protocol)
    order = {name: k for k, name in enumerate(protocol.references)}
    names = sorted(specs, key=lambda name: (order.get(name, len(order)), name))
    built.versions = list(roster(protocol, [(name, specs[name]) for name in names]))
    return built


def _endpoint(
    entrant: Entrant, protocol: Protocol, max_new_tokens: int, asking: Asking
) -> Endpoint:
    """An endpoint that answers, and samples as the protocol says."""
    model, url = _served(entrant.source)
    endpoint = Endpoint(
        EndpointSettings(
            url=url,
            model=model,
            temperature=protocol.decoding.temperature,
            max_new_tokens=max_new_tokens,
            stop=protocol.decoding.stop,
            timeout_s=asking.timeout_s,
            concurrency=asking.concurrency,
        )
    )
    endpoint.check()
    return endpoint


def _endpoint_spec(entrant: Entrant, endpoint: Endpoint, protocol: Protocol) -> Contents:
    """The contents of a served model: who was asked, and how. What replied, only its host knows.

    Args:
        entrant: who enters.
        endpoint: one that has answered, so that it knows the name which its server reports.
        protocol: what is played.
    """
    settings = endpoint.settings
    return {
        ENDPOINT: {
            "api": API,
            "url": settings.url,
            "model": settings.model,
            "reported": endpoint.reported or "",
        },
        **({} if entrant.prompt == NO_PROMPT else {SHOWN: dump(entrant.prompt)}),
        "sampling": {
            "temperature": settings.temperature,
            "max_new_tokens": settings.max_new_tokens,
        },
        "stop": list(settings.stop),
        "parser": protocol.env,
    }


def _shapes(models: Sequence[Entrant]) -> dict[str, Shape]:
    """(rank, alpha) by agent; a model without adapter shares the base of one that has an adapter."""
    own: dict[str, Shape] = {}
    lent: dict[tuple[str, str | None], Shape] = {}
    for entrant in models:
        wanted = parse_model_name(entrant.source)
        if wanted.adapter_folder is not None:
            own[entrant.name] = adapter_shape(wanted.adapter_folder)
            lent[wanted.model, entrant.prompt.system] = own[entrant.name]
    for entrant in models:
        shape = lent.get((entrant.source, entrant.prompt.system), adapter_shape(None))
        own.setdefault(entrant.name, shape)
    return own


def load_engine(
    model: str, shape: Shape, system: str | None, protocol: Protocol, max_new_tokens: int
) -> TransformersEngine:
    """An engine that samples as the protocol says, on a base with this system message."""
    from srl_agents.engines.protocol import SamplingSettings  # noqa: PLC0415
    from srl_agents.engines.transformers_engine import TransformersEngine  # noqa: PLC0415
    from srl_agents.models.base_model import (  # noqa: PLC0415 - torch comes with it
        BaseModel,
        Prompt,
    )

    base = BaseModel.load(
        model, lora_rank=shape[0], lora_alpha=shape[1], prompt=Prompt(system=system)
    )
    decoding = protocol.decoding
    return TransformersEngine(
        base,
        SamplingSettings(
            temperature=decoding.temperature, max_new_tokens=max_new_tokens, stop=decoding.stop
        ),
    )


def model_spec(
    policy: ModelPolicy, shape: Shape, prompt: PromptSettings, protocol: Protocol
) -> dict[str, Any]:
    """What is needed to audit a model: hashes of all that decides its replies, and its prompt.

    Args:
        policy: as it plays; without an adapter it is the base alone.
        shape: (rank, alpha) of the adapter; the same weights at another alpha are another agent.
        prompt: what the policy is shown. Without one, the key ``shown`` is absent.
        protocol: of the board.
    """
    from srl_agents.training.contents import contents_of  # noqa: PLC0415 - torch comes with it

    engine, adapter = policy.engine, policy.adapter
    base = engine.base
    return {
        **contents_of(base, adapter, engine.sampling, protocol.env, policy.examples),
        **({} if prompt == NO_PROMPT else {SHOWN: dump(prompt)}),
        "base": base_hint(base.name),
        "stop": list(engine.sampling.stop),
        "dtype": str(base.model.dtype).removeprefix("torch."),
        "lora": None if adapter is None else list(shape),
        "sampler": SAMPLER,
        "root_seed": ROOT_SEED,
    }
