"""Quick check of named agents, within a second: their files exist, and their server listens.

Commands call it before they import anything heavy. What it cannot decide in a second (a slow network, a
proxy) it leaves to `resolver.seat`, which asks every endpoint for a token.
"""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

from srl_agents.agents.grammar import EndpointName
from srl_agents.agents.resolver import find
from srl_agents.engines.endpoint.providers import find_model
from srl_envs.errors import ModelError, SRLError, gather

CONNECT_S = 0.7
"""In which a server that runs accepts a connection; a slower one is not refused."""
_PORTS = {"http": 80, "https": 443}


def first_look(agents: Iterable[tuple[str, str]], servers: Iterable[str] = ()) -> None:
    """Refuse agents and servers that cannot be there, with every mistake at once; nothing is loaded.

    Args:
        agents: each as users write it, with the environment that it will play.
        servers: addresses of other servers that a run needs.

    Raises:
        SRLError: a name has none of the forms, an adapter or prompt is missing or does not fit its model, or
            no server listens at an address.
    """
    addresses = list(servers)
    checks: list[Callable[[], object]] = []
    for text, env_id in dict.fromkeys(agents):
        try:
            name = find(text, env_id).name
        except SRLError as error:
            checks.append(partial(_refuse, error))
            continue
        if isinstance(name, EndpointName):
            addresses.append(find_model(name.url, name.model).provider.url)
    faults = [fault for fault in _all_faults(dict.fromkeys(addresses)) if fault]
    gather(*checks, *(partial(_refuse, ModelError(fault)) for fault in faults))


def _refuse(error: SRLError) -> None:
    raise error


def _all_faults(addresses: Iterable[str]) -> list[str]:
    found = list(addresses)
    if not found:
        return []
    with ThreadPoolExecutor(min(len(found), 16)) as pool:
        return list(pool.map(connection_fault, found))


def connection_fault(address: str) -> str:
    """Why no server can be reached at an address; empty if one can, or that is not certain yet."""
    try:
        parts = urlsplit(address)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return ""  # `find_model` explains what an address is
    host = parts.hostname
    if host is None or port is None or _proxied(parts.scheme, host):
        return ""
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except TimeoutError:
        return ""
    except OSError as error:
        return (
            f"{address}: no server answers ({error.strerror or error}). Start the server, or correct the "
            "address."
        )
    return ""


def _proxied(scheme: str, host: str) -> bool:
    return scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)
