"""Reads a vLLM server's answers: its list of models, and which paths it has; without torch."""

from __future__ import annotations

import httpx2

from srl_envs.errors import ModelError

BASE = "base"
"""Name of the model without an adapter."""
MODELS = "/v1/models"
GENERATE = "/inference/v1/generate"
LOAD = "/v1/load_lora_adapter"
_LOOK_S = 2.0
"""Limit for all answers of one look; a slower server may be compiling, and the handshake waits for it."""
_QUOTED = 300
"""Characters of a server's own words in our messages."""
_MISSING = (httpx2.codes.NOT_FOUND, httpx2.codes.METHOD_NOT_ALLOWED)
_AS_SERVED = "`srl serve MODEL` starts one that SRL can use"
_ADVICE = {
    GENERATE: (
        "so it takes no tokens. Start it by `srl serve MODEL`, or vLLM with --enable-scale-out."
    ),
    LOAD: (
        "so it loads no adapters. Start it by `srl serve MODEL`, or vLLM with --enable-lora and "
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1."
    ),
}


def look_at_server(url: str) -> None:
    """Refuse what cannot be a vLLM for training, by its list of models and its paths; nothing is sampled.

    Args:
        url: address, as a recipe has it. What does not answer within 2 s is not refused here.

    Raises:
        ModelError: what is wrong with it.
    """
    place = url.rstrip("/")
    try:
        with httpx2.Client(base_url=place, timeout=_LOOK_S, trust_env=False) as client:
            require_base(place, names_of(place, client.get(MODELS)))
            for path in (GENERATE, LOAD):
                require_path(place, path, client.post(path, json={}))
    except (httpx2.TransportError, httpx2.InvalidURL):
        return


def names_of(place: str, listed: httpx2.Response) -> set[str]:
    """Names of the models in a list of them.

    Raises:
        ModelError: the answer is something else.
    """
    try:
        return {str(model["id"]) for model in listed.json()["data"]}
    except (ValueError, KeyError, TypeError):
        raise ModelError(
            f"{place}{MODELS} answered {listed.status_code} with {quoted(listed)}: a list of models was "
            "expected, so this is not a vLLM server. Give the address that `srl serve` prints."
        ) from None


def require_base(place: str, names: set[str]) -> None:
    """Refuse a server whose model has another name.

    Raises:
        ModelError: lists the names.
    """
    if BASE not in names:
        raise ModelError(
            f"{place} serves {', '.join(sorted(names)) or 'no model'}, and the model without adapter has "
            f"to be called {BASE!r} (--served-model-name {BASE}); {_AS_SERVED}."
        )


def require_path(place: str, path: str, found: httpx2.Response) -> None:
    """Refuse a server without a path; any other answer passes.

    Raises:
        ModelError: how to start it.
    """
    if found.status_code in _MISSING:
        raise ModelError(
            f"{place} has no {path} ({found.status_code}: {quoted(found)}), {_ADVICE[path]}"
        )


def quoted(found: httpx2.Response) -> str:
    """A server's own words on one line; of a page its kind."""
    text = found.text.strip()
    if text[:1] == "<":
        return "an HTML page"
    return repr(" ".join(text.split())[:_QUOTED]) if text else "nothing"


def names_a_model(found: httpx2.Response) -> bool:
    """Whether a 404 is vLLM's own word on a model, and not a path that is missing."""
    try:
        return bool(found.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return False
