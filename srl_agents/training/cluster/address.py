"""Whether a recipe can be trained on a Ray cluster, and whether one answers; Ray is not imported."""

from __future__ import annotations

import importlib.util
import os
import socket

from srl_agents.recipes.sections.ray import PART_MATCHES
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError

_ANSWER_S = 5.0
"""Limit for an answer of a cluster's head."""
_FRAME, _SETTINGS = 9, 4
"""Bytes of a frame's head, and the kind of frame with which both sides of HTTP/2 begin."""
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + bytes([_SETTINGS]) + bytes(5)
"""First bytes that a client sends. Source: RFC 9113, 3.4."""


def on_ray(recipe: LeagueRecipe) -> list[str]:
    """Settings that a recipe needs beyond its own, for workers of a cluster to play.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ConfigError: the recipe cannot be played there.
    """
    if importlib.util.find_spec("ray") is None:
        raise ModuleNotFoundError("no ray", name="ray")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError(
            "--ray, torchrun: a run on a cluster has one trainer. Give only the command, without torchrun."
        )
    if recipe.placement not in ("auto", "disaggregated"):
        raise ConfigError(
            f"--ray, placement={recipe.placement!r}: every worker has a base of its own. Use 'disaggregated'."
        )
    if recipe.opponents.agents:
        raise ConfigError(
            f"--ray, opponents.agents={', '.join(recipe.opponents.agents)}: workers of a cluster have only "
            "the league's own players and bots. Leave out one of the two."
        )
    own = recipe.asynchronous
    added = ["placement=disaggregated"] if recipe.placement == "auto" else []
    if own is None:
        added.append("asynchronous.ahead=0")
    elif own.in_flight == "switch":
        raise ConfigError(
            "--ray, asynchronous.in_flight='switch': a part that another worker plays again could not end "
            "alike. Use 'keep'."
        )
    if own is None or not own.part_matches:
        added.append(f"asynchronous.part_matches={PART_MATCHES}")
    if not recipe.carrier.crosses_processes:
        added.append("transport.kind=files")
    return added


def require_answer(address: str) -> None:
    """Require an answer at the address of a cluster; Ray itself would try for minutes.

    Raises:
        ConfigError: no cluster answers, or it is not an address.
    """
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ConfigError(f"--ray {address}: use auto, local, or HOST:PORT of the cluster's head.")
    fault = ""
    try:
        place = (host.strip("[]"), int(port))
        with socket.create_connection(place, timeout=_ANSWER_S) as link:
            if os.environ.get("RAY_USE_TLS", "0") == "0" and not _speaks_http2(link):
                fault = "what listens there is something else"
    except OSError as error:
        fault = error.strerror or str(error)
    if fault:
        raise ConfigError(
            f"--ray {address}: no cluster answers ({fault}). Start one with `ray start --head`, or give "
            "--ray local."
        )


def _speaks_http2(link: socket.socket) -> bool:
    """Whether the other side begins as the head of a cluster does, with its settings."""
    link.sendall(_HTTP2)
    head = b""
    while len(head) < _FRAME and (part := link.recv(_FRAME - len(head))):
        head += part
    return len(head) == _FRAME and head[3] == _SETTINGS
