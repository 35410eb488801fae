"""From agent names to policies: the one way for every command that seats an agent.

`find` looks whether a name can sit in an environment, and loads nothing. `seat` makes policies: it asks
every endpoint for a token, then loads each base once for all of its adapters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from srl_agents.agents.contents import ENDPOINT, bot_contents, contents_of, endpoint_contents
from srl_agents.agents.grammar import (
    FORMS,
    HUMAN,
    AgentName,
    BotName,
    EndpointName,
    HumanName,
    ModelName,
    parse,
)
from srl_agents.agents.players import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.agents.prompt_file import NO_PROMPT, PromptSettings, find_prompt, read_prompt
from srl_agents.engines.endpoint.providers import find_model
from srl_agents.engines.endpoint.settings import EndpointSettings
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.waiting import Say, to_stderr
from srl_agents.memory import architecture
from srl_agents.models.prompt import Example, Prompt
from srl_agents.records import WeightVersion
from srl_envs import spec
from srl_envs.errors import ConfigError, ModelError, UnknownPolicyError, nearest
from srl_envs.registry import no_bot

if TYPE_CHECKING:  # torch comes with the second
    from srl_agents.engines.embedded.engine import TransformersEngine
    from srl_agents.engines.endpoint.reply_journal import ReplyJournal
    from srl_agents.engines.endpoint.sent_requests import SentRequests

MODELS = ("tiny", "tiny-shallow", "smollm2-135m")
Activation = Literal["start", "reply"]
Shape = tuple[int, float]
"""Rank and alpha of an adapter."""
NO_ADAPTER: Shape = (8, 16.0)
"""Rank and alpha of a base without adapters."""
_LABEL = re.compile(r"(?P<learner>[^\W\d]\w*)@(?P<number>\d+)")
_WEIGHTS, _CONFIG = "adapter_model.safetensors", "adapter_config.json"
_OTHER_KINDS = ("use_dora", "use_rslora", "rank_pattern", "alpha_pattern", "modules_to_save")
"""Keys of PEFT's configuration whose adapters act otherwise than plain LoRA does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """How requests to endpoints are made; not part of an agent's identity."""

    concurrency: int = 16
    """Requests to one model at once."""
    in_flight: int = 64
    """Requests to all endpoints at once."""
    timeout_s: float = 120.0
    """Seconds that one try may take."""
    deadline_s: float = 600.0
    """For all tries of one reply."""
    journal: ReplyJournal | None = None
    """Answers requests that it has recorded; its opener closes it, after the engines."""
    sent: SentRequests | None = None
    """Records each request under its candidate's name; closed like the journal."""
    say: Say = to_stderr
    """Shows a line while no reply comes."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "in_flight"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: use 1 or more.")
        for name in ("timeout_s", "deadline_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name):g}: use more than 0.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Playing:
    """Settings of play that hold for every agent of a command."""

    env_id: str
    sampling: SamplingSettings
    asking: Asking = field(default_factory=Asking)
    dtype: Literal["auto", "float32", "bfloat16"] = "float32"
    """Number type of the bases that are loaded."""
    device: str = "auto"
    """Device of the bases that are loaded."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent that may take a seat: its name is valid and its files exist; nothing is loaded yet."""

    name: AgentName
    prompt: PromptSettings = NO_PROMPT
    """Prompt that stands before every observation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seated:
    """An agent that can play: its policy and what identifies it."""

    policy: Policy
    contents: dict[str, Any]
    """Values that determine its replies, from which its digest is made."""
    engine: TransformersEngine | None = None
    """Engine of a model that is loaded here; None for endpoints and bots."""
    shape: Shape = NO_ADAPTER
    """Rank and alpha of its adapter."""


@dataclass(frozen=True, slots=True)
class EngineKey:
    """Agents with equal keys share an engine."""

    model: str
    shape: Shape
    head: Prompt
    """All of the prompt but its examples."""
    activation: Activation = "start"
    """From which token on its adapters act."""


def known_name(text: str, env_id: str) -> AgentName:
    """Read a name of a bot that the environment has, or of a model that there may be.

    Args:
        text: of the grammar.
        env_id: the environment that will be played; bots belong to one.

    Raises:
        ConfigError: the text has none of the forms, or an address is of no use.
        UnknownPolicyError: no bot, model, hub id or folder has this name.
    """
    known = spec(env_id)
    name = parse(text, known.bots)
    if isinstance(name, BotName) and name.bot not in known.bots:
        raise UnknownPolicyError(no_bot(known, name.bot))
    if isinstance(name, EndpointName):
        find_model(name.url, name.model)
    if isinstance(name, ModelName) and not may_exist(name.model):
        names = [*known.bots, *MODELS, HUMAN]
        raise UnknownPolicyError(
            f"no agent {text!r}.{nearest(text, names)} Bots of {known.id}: "
            f"{', '.join(known.bots) or 'none'}; models: {', '.join(MODELS)}, a hub id, a folder. "
            f"Write {FORMS}."
        )
    return name


def find(text: str, env_id: str) -> Candidate:
    """`known_name`, and the files that it names; nothing is loaded or asked.

    Raises:
        ConfigError: also where an adapter is another model's, or a prompt cannot be read.
        UnknownPolicyError: also where a folder holds no adapter.
    """
    name = known_name(text, env_id)
    if isinstance(name, EndpointName):
        return Candidate(name, _prompt_of(name, None))
    if not isinstance(name, ModelName):
        return Candidate(name)
    if name.adapter:
        check_adapter(name)
        return Candidate(name, _prompt_of(name, Path(name.adapter).expanduser()))
    folder = None if name.model in MODELS else Path(name.model).expanduser()
    return Candidate(name, _prompt_of(name, folder))


def refuse_human(name: AgentName, place: str) -> None:
    """Refuse the human player where matches run without a terminal.

    Raises:
        ConfigError: the message names the commands in which people can play.
    """
    if isinstance(name, HumanName):
        raise ConfigError(
            f"agent {HUMAN!r}: no person can give moves {place}. People play with `srl play`."
        )


def require_model(name: str) -> None:
    """Refuse a name that can be no language model, without loading or fetching anything.

    Raises:
        UnknownPolicyError: names the nearest model.
    """
    if not may_exist(name):
        raise UnknownPolicyError(
            f"no model {name!r}.{nearest(name, MODELS)} "
            f"Models: {', '.join(MODELS)}, a hub id, or a folder."
        )


def may_exist(model: str) -> bool:
    """Whether the name is one of the catalog, could be a hub id, or is a folder."""
    hub_id = model.count("/") == 1 and not model.startswith((".", "/", "~")) and model[-1] != "/"
    return model in MODELS or hub_id or Path(model).expanduser().is_dir()


def check_adapter(name: ModelName) -> Shape:
    """Check from files on this machine whether a folder holds an adapter of this model.

    Returns:
        Its rank and alpha.

    Raises:
        ConfigError: it was made for another model.
        UnknownPolicyError: it holds no adapter.
    """
    folder = Path(name.adapter).expanduser()
    shape = adapter_shape(folder)
    config, sizes = _config_of(name.model), _layer_sizes(folder)
    reads = next((own[1] for layer, own in sizes.items() if layer.endswith("q_proj")), None)
    width = _number(config, "hidden_size")
    if width is not None and reads is not None and width != reads:
        raise ConfigError(
            f"{folder} is an adapter of another model: it reads {reads} values per token, and "
            f"{name.model} has {width}. Name the model that it was trained on."
        )
    blocks, deepest = _number(config, "num_hidden_layers"), _deepest_block(sizes)
    if blocks is not None and deepest >= blocks:
        raise ConfigError(
            f"{folder} is an adapter of another model: it changes block {deepest + 1}, and {name.model} has "
            f"{blocks}. Name the model that it was trained on."
        )
    for layer, own in sizes.items():
        part = layer.rpartition(".")[2]
        size = _linear(config).get(part)
        if size is not None and (own[1] != size[1] or own[0] not in (None, size[0])):
            raise ConfigError(
                f"{folder} is an adapter of another model: its {part} has {own[1]} inputs and {own[0]} "
                f"outputs, and that of {name.model} has {size[1]} and {size[0]}. Name the model that it was "
                "trained on."
            )
    return shape


def _activation(folder: Path) -> Activation:
    """From which token on the adapter acts."""
    config = json.loads((folder / _CONFIG).read_text())
    return "reply" if config.get("alora_invocation_tokens") else "start"


def adapter_shape(folder: Path) -> Shape:
    """(rank, alpha) that the adapter was made with.

    Raises:
        ConfigError: the adapter is not a plain LoRA adapter.
        UnknownPolicyError: the folder holds no adapter.
    """
    try:
        config = json.loads((folder / _CONFIG).read_text())
        shape = int(config["r"]), float(config["lora_alpha"])
    except FileNotFoundError:
        around = folder.parent.iterdir() if folder.parent.is_dir() else ()
        beside = [path.name for path in around if (path / _CONFIG).is_file()]
        what = "holds no adapter" if folder.is_dir() else "is not there"
        raise UnknownPolicyError(
            f"{folder} is not an adapter folder: it {what}.{nearest(folder.name, beside)} "
            f"It must hold {_CONFIG} and {_WEIGHTS}."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnknownPolicyError(
            f"{folder} is not an adapter folder ({type(error).__name__}: {error}); "
            f"it must hold {_CONFIG} and {_WEIGHTS}."
        ) from None
    require_plain_lora(folder, config)
    return shape


def adapter_sha256(folder: Path) -> str:
    """Hash of an adapter's tensors as `contents` has it, from its file: loaded adapters are float32.

    Raises:
        UnknownPolicyError: the file does not exist or cannot be read.
    """
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415 - torch comes with it

    from srl_agents.models.digests import tensors_sha256  # noqa: PLC0415

    try:
        tensors = load_file(folder / _WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise UnknownPolicyError(f"{folder / _WEIGHTS} cannot be read: {error}.") from None
    return tensors_sha256({name: tensor.float() for name, tensor in tensors.items()})


def require_plain_lora(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse adapters whose factors mean something else than plain LoRA's.

    Args:
        folder: of the adapter, for the message.
        config: what PEFT wrote there.

    Raises:
        ConfigError: the adapter is of another kind; the message names it and what to do.
    """
    kind = config.get("peft_type", "LORA")
    found = [key for key in _OTHER_KINDS if config.get(key)]
    if kind != "LORA" or found:
        what = f"peft_type {kind}" if kind != "LORA" else ", ".join(found)
        raise ConfigError(
            f"{folder} is made with {what}, and adapters here are plain LoRA factors. Merge it into the "
            "model and give the merged folder as model, or use a plain LoRA adapter."
        )


def reply_budget(env_id: str) -> int:
    """Tokens that a reply to this environment may take by default."""
    from srl_envs.core import Game  # noqa: PLC0415 - gymnasium comes with it
    from srl_envs.foreign_code import load_entry_point  # noqa: PLC0415

    game = load_entry_point(spec(env_id).entry_point)
    long = isinstance(game, type) and issubclass(game, Game) and game.max_action_chars > 4096
    return 1024 if long else 128


def seat(
    candidates: Mapping[str, Candidate],
    playing: Playing,
    engines: Mapping[EngineKey, TransformersEngine] | None = None,
) -> dict[str, Seated]:
    """Let candidates play; endpoints are asked for a token each before any model is loaded.

    Args:
        candidates: by the names that they get.
        playing: the environment, and how replies are sampled.
        engines: loaded already, for agents with these keys.

    Returns:
        By name, in the order of the candidates.

    Raises:
        ConfigError: one of them is a person.
        ModelError: a model or adapter cannot be loaded, or an endpoint does not answer.
    """
    for candidate in candidates.values():
        refuse_human(candidate.name, "here")
    seated: dict[str, Seated] = {}
    try:
        _seat(candidates, playing, dict(engines or {}), seated)
    except BaseException:
        _release_endpoints(seated)
        raise
    return {label: seated[label] for label in candidates}


def _seat(
    candidates: Mapping[str, Candidate],
    playing: Playing,
    loaded: dict[EngineKey, TransformersEngine],
    seated: dict[str, Seated],
) -> None:
    """Fill ``seated``: endpoints first, then models."""
    models: dict[str, tuple[ModelName, PromptSettings]] = {}
    for label, candidate in candidates.items():
        name, prompt = candidate.name, candidate.prompt
        if isinstance(name, BotName):
            contents = bot_contents(name.bot, playing.env_id)
            seated[label] = Seated(policy=ScriptedPolicy(name.bot), contents=contents)
        elif isinstance(name, EndpointName):
            seated[label] = _endpoint(label, name, prompt, playing)
        elif isinstance(name, ModelName):
            models[label] = (name, prompt)
    for label, key in _keys(models).items():
        if key not in loaded:
            loaded[key] = load_engine(key, playing)
        name, prompt = models[label]
        seated[label] = _model(loaded[key], key.shape, name, prompt, playing)


def _release_endpoints(seated: Mapping[str, Seated]) -> None:
    """Close the endpoint engines of seats that are not handed out."""
    served = [one.policy for one in seated.values() if ENDPOINT in one.contents]
    if served:
        from srl_agents.engines.endpoint.client import EndpointEngine  # noqa: PLC0415 - an extra

        engines = [policy.engine for policy in served if isinstance(policy, ModelPolicy)]
        for engine in engines:
            if isinstance(engine, EndpointEngine):
                engine.release()


async def close_engines(policies: Iterable[Policy]) -> None:
    """Give back the engines behind these policies, each once."""
    engines = {id(p.engine): p.engine for p in policies if isinstance(p, ModelPolicy)}
    for engine in engines.values():
        await engine.close()


def load_engine(key: EngineKey, playing: Playing) -> TransformersEngine:
    """A base with its engine.

    Raises:
        ModelError: it cannot be fetched or loaded.
    """
    from srl_agents.engines.embedded.engine import TransformersEngine  # noqa: PLC0415
    from srl_agents.models.base_model import BaseModel  # noqa: PLC0415 - torch comes with it

    rank, alpha = key.shape
    base = BaseModel.load(
        key.model,
        lora_rank=rank,
        lora_alpha=alpha,
        lora_activation=key.activation,
        dtype=playing.dtype,
        device=playing.device,
        prompt=key.head,
    )
    return TransformersEngine(base, playing.sampling)


def _prompt_of(name: ModelName | EndpointName, folder: Path | None) -> PromptSettings:
    """The prompt that the name asks for, or the one that lies beside the weights."""
    if name.prompt:
        return find_prompt(Path(name.prompt).expanduser())
    return NO_PROMPT if folder is None else read_prompt(folder)


def _config_of(model: str) -> Mapping[str, Any]:
    """The configuration of a model's decoder, from this machine or as SRL ships it; empty if unknown."""
    from srl_agents.models.sources import catalog  # noqa: PLC0415 - the hub's client comes with it

    folder = catalog.local_folder(model)
    try:
        config = json.loads(((folder or Path()) / "config.json").read_text())
    except (OSError, ValueError):
        config = architecture.published_config(model)
    found = config.get("text_config", config) if isinstance(config, dict) else {}
    return found if isinstance(found, dict) else {}


def _number(config: Mapping[str, Any], key: str) -> int | None:
    try:
        return int(config[key])
    except (KeyError, TypeError, ValueError):
        return None


def _linear(config: Mapping[str, Any]) -> Mapping[str, tuple[int, int]]:
    """(outputs, inputs) of a block's linear layers by name; empty for decoders of an unknown kind."""
    try:
        return architecture.from_config("", config).linear()
    except ConfigError:
        return {}


def _deepest_block(layers: Iterable[str]) -> int:
    """Number of the last block that an adapter has factors in; -1 where none has a number."""
    found = (re.search(r"\.layers\.(\d+)\.", layer) for layer in layers)
    return max((int(match[1]) for match in found if match), default=-1)


def adapter_layers(folder: Path) -> tuple[str, ...]:
    """Full names, in PEFT's wrapper, of the layers that an adapter has factors on.

    Raises:
        UnknownPolicyError: the folder holds no adapter, or its file cannot be read.
    """
    return tuple(_layer_sizes(folder))


def _layer_sizes(folder: Path) -> dict[str, tuple[int | None, int]]:
    """Layer -> (outputs, inputs) of what its factors are added to; without a second factor no outputs."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    first, second = ".lora_A.weight", ".lora_B.weight"
    try:
        with safe_open(folder / _WEIGHTS, framework="numpy") as file:
            shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UnknownPolicyError(
            f"{folder} is not an adapter folder; it must hold {_CONFIG} and {_WEIGHTS}."
        ) from None
    except (SafetensorError, OSError) as error:
        raise UnknownPolicyError(f"{folder / _WEIGHTS} cannot be read: {error}.") from None
    layers = [key.removesuffix(first) for key in shapes if key.endswith(first)]
    return {
        layer: (
            int(shapes[layer + second][0]) if layer + second in shapes else None,
            int(shapes[layer + first][1]),
        )
        for layer in layers
    }


def endpoint_settings(name: EndpointName, playing: Playing) -> EndpointSettings:
    """Request settings of a served model: from the providers file and the command's options.

    Raises:
        ConfigError: the file cannot be read, or a value is impossible.
    """
    found, asking, sampling = find_model(name.url, name.model), playing.asking, playing.sampling
    return EndpointSettings(
        account=found.provider.account,
        model=name.model,
        temperature=sampling.temperature,
        max_new_tokens=sampling.max_new_tokens,
        max_thought_tokens=found.model.max_thought_tokens,
        opens_thoughts=found.model.opens_thoughts,
        extra=found.model.extra,
        stop=sampling.stop,
        timeout_s=found.provider.timeout_s or asking.timeout_s,
        deadline_s=found.provider.deadline_s or asking.deadline_s,
        concurrency=asking.concurrency,
        price=found.price,
        listed=name.model not in found.provider.models,
    )


def _endpoint(label: str, name: EndpointName, prompt: PromptSettings, playing: Playing) -> Seated:
    """An endpoint that answers."""
    from srl_agents.engines.endpoint.client import EndpointEngine  # noqa: PLC0415 - an extra

    if prompt.head() != Prompt(system=prompt.system):
        raise ConfigError(
            f"endpoint {name.model}: template_arguments, thoughts and memory of a prompt are for models "
            "that are loaded here; leave them out. Thoughts of a served model get room by "
            "max_thought_tokens in the providers file (`srl docs endpoints`)."
        )
    asking = playing.asking
    engine = EndpointEngine(
        endpoint_settings(name, playing),
        prompt.system,
        journal=asking.journal,
        sent=None if asking.sent is None else partial(asking.sent.add, label),
        in_flight=asking.in_flight,
        say=asking.say,
    )
    engine.check()
    return Seated(
        policy=ModelPolicy(engine, None, prompt.pairs),
        contents=endpoint_contents(engine, prompt, playing.env_id),
    )


def _keys(models: Mapping[str, tuple[ModelName, PromptSettings]]) -> dict[str, EngineKey]:
    """Engine by agent; a model without adapter shares the base of one that has an adapter."""
    own: dict[str, EngineKey] = {}
    lent: dict[tuple[str, Prompt], EngineKey] = {}
    for label, (name, prompt) in models.items():
        if name.adapter:
            folder = Path(name.adapter).expanduser()
            shape, activation = adapter_shape(folder), _activation(folder)
            own[label] = EngineKey(name.model, shape, prompt.head(), activation)
            lent[name.model, prompt.head()] = own[label]
    for label, (name, prompt) in models.items():
        bare = EngineKey(name.model, NO_ADAPTER, prompt.head())
        own.setdefault(label, lent.get((name.model, prompt.head()), bare))
    return {label: own[label] for label in models}


def _model(
    engine: TransformersEngine,
    shape: Shape,
    name: ModelName,
    prompt: PromptSettings,
    playing: Playing,
) -> Seated:
    """A model, with its adapter as a frozen version on the engine's base."""
    version = None
    if name.adapter:
        folder = Path(name.adapter).expanduser()
        version = _version(folder, prompt.pairs)
        if str(version) not in engine.base.frozen:
            engine.base.load_frozen(str(version), folder)
    adapter = None if version is None else str(version)
    return Seated(
        policy=ModelPolicy(engine, version, prompt.pairs),
        contents=contents_of(engine.base, adapter, engine.sampling, playing.env_id, prompt.pairs),
        engine=engine,
        shape=shape,
    )


def _version(folder: Path, shown: Sequence[Example]) -> WeightVersion:
    """What an adapter's folder holds: named after the folder, and never as a learner of a run is."""
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415 - torch comes with it

    from srl_agents.models.digests import version_of  # noqa: PLC0415

    named = _LABEL.match(folder.resolve().name)
    learner, number = (named["learner"], int(named["number"])) if named else ("unnamed", 0)
    try:
        tensors = load_file(folder / _WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{folder / _WEIGHTS} cannot be read: {error}.") from None
    return version_of(f"adapter_{learner}", number, tensors, shown)
