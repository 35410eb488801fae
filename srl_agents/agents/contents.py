"""Values that determine an agent's replies; their digest identifies the agent in stores and on boards."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_agents.agents.prompt_file import NO_PROMPT, PromptSettings, shown
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.models.prompt import Example
from srl_agents.records import canonical_json, digest
from srl_envs.reading.settings import dump

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.engines.endpoint.client import EndpointEngine
    from srl_agents.engines.endpoint.settings import EndpointSettings
    from srl_agents.models.base_model import BaseModel
    from srl_agents.models.chat import ChatTokenizer

SHOWN = "shown"
"""Key of a prompt, word for word; ``prompt`` holds the hash of one that a model's template wrote."""
ENDPOINT = "endpoint"
"""Key of where a served model is."""
THINKING = "thinking"
"""Key of what an endpoint is asked for beside prompt and sampling; absent where that is nothing."""
API = "openai-chat"
"""Protocol of requests to endpoints."""
_NOT_BEHAVIOUR = frozenset(
    {"transformers_version", "_name_or_path", "dtype", "torch_dtype", "use_cache"}
)
"""Keys of ``config.json`` that change when a model is saved again; the tensors carry their dtype."""


def bot_contents(bot: str, env_id: str) -> dict[str, Any]:
    """Contents of a bot; its code belongs to the environment's version."""
    return {"bot": bot, "env": env_id}


def endpoint_contents(
    engine: EndpointEngine, prompt: PromptSettings, env_id: str
) -> dict[str, Any]:
    """Contents of a served model: its address, name and request settings, but no hash of its weights.

    Args:
        engine: an engine that has answered once, so that it holds the model name that its server reports.
        prompt: the prompt settings that the model is shown.
        env_id: environment whose replies are read.
    """
    settings = engine.settings
    return {
        ENDPOINT: {
            "api": API,
            "url": settings.url,
            "model": settings.model,
            "reported": engine.reported or "",
        },
        **({} if prompt == NO_PROMPT else {SHOWN: shown(prompt)}),
        "sampling": {
            "temperature": settings.temperature,
            "max_new_tokens": settings.max_new_tokens,
        },
        "stop": list(settings.stop),
        "parser": env_id,
        **({THINKING: _thinking(settings)} if settings.thinks else {}),
    }


def _thinking(settings: EndpointSettings) -> dict[str, Any]:
    return {
        "max_thought_tokens": settings.max_thought_tokens,
        "extra": canonical_json(settings.extra),
    }


def contents_of(
    base: BaseModel,
    adapter: str | None,
    sampling: SamplingSettings,
    env_id: str,
    examples: tuple[Example, ...] = (),
) -> dict[str, Any]:
    """Contents of an adapter or a version on a base model, or of the base model itself.

    Args:
        base: has the weights.
        adapter: name of the adapter on the base; None for the base without an adapter.
        sampling: of the engine that plays.
        env_id: whose replies are read.
        examples: the policy's own, behind those of the base's prompt.
    """
    from srl_agents.models.digests import tensors_sha256  # noqa: PLC0415 - torch comes with it
    from srl_agents.models.sources import catalog  # noqa: PLC0415 - the hub's client comes with it

    return model_contents(
        base=base.name,
        base_sha256=base_sha256(catalog.resolve(base.name)),
        adapter=None if adapter is None else tensors_sha256(base.adapter_tensors(adapter)),
        **chat_contents(base.chat, examples),
        sampling={
            "temperature": sampling.temperature,
            "max_new_tokens": sampling.max_new_tokens,
            **_filters(sampling),
        },
        parser=env_id,
    )


def chat_contents(chat: ChatTokenizer, examples: tuple[Example, ...] = ()) -> dict[str, str]:
    """``prompt`` and ``tokenizer`` of contents, which no weights are needed for.

    Args:
        chat: of the base, behind its prompt.
        examples: the policy's own, behind those of the base's prompt.
    """
    prompt, pairs = chat.prompt, (*chat.prompt.examples, *examples)
    more = {
        "template_arguments": dict(prompt.template_arguments),
        "thoughts": prompt.thoughts and dump(prompt.thoughts),
        "memory": prompt.memory and dump(prompt.memory),
    }
    said = {name: value for name, value in more.items() if value}
    return {
        "prompt": digest(
            [prompt.system, pairs, chat.tokenizer.chat_template, *([said] if said else [])]
        ),
        "tokenizer": _tokenizer_sha256(chat.tokenizer),
    }


def _filters(sampling: SamplingSettings) -> dict[str, float]:
    """Sampling filters that exclude tokens, by name."""
    untouched = SamplingSettings()
    return {
        name: getattr(sampling, name)
        for name in ("top_k", "top_p", "min_p")
        if getattr(sampling, name) != getattr(untouched, name)
    }


def model_contents(
    *,
    base: str,
    base_sha256: str,
    adapter: str | None,
    prompt: str,
    tokenizer: str,
    sampling: dict[str, Any],
    parser: str,
) -> dict[str, Any]:
    """The contents of a language model that plays.

    Args:
        base: name of the base model, a label.
        base_sha256: hash of the base's weights and configuration.
        adapter: hash of the adapter's weights; None for the base without an adapter.
        prompt: hash of what stands before every observation, chat template included.
        tokenizer: hash of the vocabulary.
        sampling: temperature, most new tokens and the like.
        parser: what reads the replies: the environment's id, whose version changes with its grammar.
    """
    return {
        "base": base,
        "base_sha256": base_sha256,
        "adapter": adapter,
        "prompt": prompt,
        "tokenizer": tokenizer,
        "sampling": sampling,
        "parser": parser,
    }


def base_sha256(folder: Path) -> str:
    """Hash of a base model's weight files and of its configuration."""
    files = [*sorted(folder.glob("*.safetensors")), folder / "config.json"]
    return _files_sha256(tuple((path, path.stat().st_mtime_ns) for path in files))


@lru_cache(maxsize=16)
def _files_sha256(files: tuple[tuple[Path, int], ...]) -> str:
    """Over names in order; the times are there for the cache, so that a changed file is read again."""
    hashed = hashlib.sha256()
    for path, _ in files:
        if path.suffix == ".json":
            config = json.loads(path.read_text(encoding="utf-8"))
            kept = {key: value for key, value in config.items() if key not in _NOT_BEHAVIOUR}
            hashed.update(digest(kept).encode())
        else:
            with path.open("rb") as file:
                hashed.update(hashlib.file_digest(file, "sha256").digest())
    return hashed.hexdigest()


def _tokenizer_sha256(tokenizer: Any) -> str:
    """Hash over vocabulary, merges, normalisation and added tokens; padding is left out."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return digest(sorted(tokenizer.get_vocab().items()))
    content = json.loads(backend.to_str())
    return digest({k: v for k, v in content.items() if k not in ("padding", "truncation")})
