"""The models that an endpoint lists, and whether a name is one of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx2

from srl_agents.engines.endpoint.line import Secret
from srl_agents.engines.endpoint.settings import EndpointSettings
from srl_envs.errors import ModelError, nearest

_LISTING_S = 10.0
_MOST_NAMED = 20
"""Models in a message."""
_PATHS = ("/", "./", "../", "~")
"""Beginnings of names by which a server loads a folder; it need not list that."""


async def listed_models(
    client: httpx2.AsyncClient, settings: EndpointSettings, secret: Secret
) -> list[str]:
    """Names in the endpoint's list; none where it has no list, or gives a part of it.

    Args:
        client: of the account.
        settings: of the endpoint.
        secret: its key.
    """
    try:
        listed = await client.get(
            settings.url.rstrip("/") + "/models", headers=secret.headers, timeout=_LISTING_S
        )
        body = json.loads(secret.hide_in_body(listed.content))
        if body.get("has_more"):
            return []
        return sorted(str(model["id"]) for model in body["data"])
    except (httpx2.HTTPError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def require_listed(settings: EndpointSettings, served: Sequence[str]) -> None:
    """Refuse a model that is not in the endpoint's list: some servers answer every name with what they have.

    Args:
        settings: of the endpoint.
        served: names in its list; where there are none, nothing is refused.

    Raises:
        ModelError: names the models that are.
    """
    model = settings.model
    if not served or not settings.listed or model.startswith(_PATHS):
        return
    if not any(name in (model, f"{model}:latest") or name.endswith(f"/{model}") for name in served):
        raise not_served(settings, served)


def not_served(settings: EndpointSettings, served: Sequence[str]) -> ModelError:
    """What is said of a model that the endpoint does not have."""
    more = f", and {len(served) - _MOST_NAMED} more" if len(served) > _MOST_NAMED else ""
    return ModelError(
        f"{settings.url} serves no model {settings.model!r}.{nearest(settings.model, served)} It serves: "
        f"{', '.join(served[:_MOST_NAMED])}{more}. A model that it serves and does not list belongs "
        "under models in the providers file (`srl docs endpoints`)."
    )
