"""Adapters that one bundle holds for others, so that a board keeps an agent's weights once for all games."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leaderboards.bundles.agent_specs import is_model
from leaderboards.bundles.submission import adapter_folder, open_bundle
from leaderboards.contents.bases import base_source
from leaderboards.contents.intake import ADAPTER_WEIGHTS, BundleError


def lent_adapters(folders: Sequence[Path]) -> list[dict[str, str]]:
    """What each bundle lacks of the adapters of its agents, and another one holds under the same digest.

    Args:
        folders: of bundles; of damaged ones nothing is taken, and nothing is said.

    Returns:
        Per folder: agent id -> ``MODEL+FOLDER``. The auditor still holds the weights against what the
        bundle declares.
    """
    held: dict[tuple[str, str], str] = {}
    lacking: list[list[tuple[str, str]]] = []
    for folder in folders:
        lacking.append([])
        try:
            agents = [agent for agent in open_bundle(folder).entrants if is_model(agent)]
        except BundleError:
            continue
        for agent in agents:
            base, digest = base_source(agent.spec), agent.spec["adapter"]
            if base is None or digest is None:
                continue
            own, name = adapter_folder(folder, agent.agent_id), (agent.agent_id, str(digest))
            if (own / ADAPTER_WEIGHTS).is_file():
                held.setdefault(name, f"{base}+{own.resolve()}")
            else:
                lacking[-1].append(name)
    return [{name[0]: held[name] for name in names if name in held} for names in lacking]
