"""Every way from SRL to another package: when it is tried, by which tests, and what the last try gave.

The page docs/reference/doors.md is written from this list and the results of `python -m tests.nightly`; a
test holds both to the Makefile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/doors.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One package, and the tests that go through it."""

    package: str
    """Name and version that was tried."""
    ways: str
    """What goes which way."""
    how: str
    """What of the other package runs, and what does not."""
    guide: str
    """Page that shows the way, from docs/reference."""
    tests: tuple[str, ...]
    """Files of tests."""
    target: str = ""
    """Target of make that tries it, every night; empty where every commit does (`make test`)."""

    @property
    def part(self) -> str:
        """Name of its part in `python -m tests.nightly`."""
        return self.target or f"door-{self.package.split()[0].lower()}"


_ADAPTERS = "tests/srl_envs/adapters"
DOORS = (
    Door(
        package="OpenSpiel 2.0",
        ways="its games here",
        how="whole: its games pass our kit, and agree with our own of the same rules",
        guide="../guides/neighbours.md#openspiel",
        tests=(f"{_ADAPTERS}/test_open_spiel_games.py",),
    ),
    Door(
        package="TextArena 0.7",
        ways="its games here, ours there",
        how="whole: its loop plays our games, our kit its games",
        guide="../guides/neighbours.md#textarena",
        tests=(f"{_ADAPTERS}/test_textarena_games.py",),
    ),
    Door(
        package="Stable-Baselines3 2.7",
        ways="our numeric games there",
        how="whole: MaskablePPO learns from every numeric game",
        guide="../guides/wrappers.md",
        tests=("tests/srl_envs/wrappers/test_numeric_sb3.py",),
    ),
    Door(
        package="TRL 1.16",
        ways="one seat there",
        how="whole: GRPOTrainer takes a step on a small model",
        guide="../guides/neighbours.md#trl",
        tests=(f"{_ADAPTERS}/test_trl_environment.py",),
    ),
    Door(
        package="verifiers 0.4",
        ways="every seat there",
        how="its environments, servers and commands; prime-rl on it is on no index and is not run",
        guide="../guides/neighbours.md#verifiers",
        tests=(f"{_ADAPTERS}/test_verifiers_environment.py",),
        target="door-verifiers",
    ),
    Door(
        package="OpenEnv 0.10",
        ways="one seat there, also as a package",
        how="server, clients, discovery and `openenv validate`; images are not built",
        guide="../guides/neighbours.md#openenv",
        tests=(f"{_ADAPTERS}/test_openenv_server.py",),
        target="door-openenv",
    ),
    Door(
        package="RLlib (Ray 2.60)",
        ways="our numeric games there",
        how="PPO with masked actions takes an update, in turns and at once",
        guide="../guides/wrappers.md",
        tests=("tests/srl_envs/wrappers/test_numeric_rllib.py",),
        target="door-rllib",
    ),
    Door(
        package="Inspect 0.3",
        ways="our games and adapters there",
        how="whole: `srl eval` on the CPU",
        guide="../guides/measure_outside.md",
        tests=("tests/srl_agents/exports/test_inspect_run.py",),
        target="inspect",
    ),
    Door(
        package="SkyRL 0.3",
        ways="one seat there",
        how="by contract: registry, data set, `SkyRLGymGenerator`; its trainer needs a card",
        guide="../guides/other_trainers.md#our-games-in-skyrl",
        tests=(f"{_ADAPTERS}/test_skyrl_environment.py",),
        target="door-skyrl",
    ),
    Door(
        package="AReaL 1.0",
        ways="every seat there",
        how="by contract: proxy, `OpenAIProxyWorkflow`, export; its trainer needs a card",
        guide="../guides/other_trainers.md#our-games-in-areal",
        tests=(f"{_ADAPTERS}/test_areal_agent.py",),
        target="door-areal",
    ),
    Door(
        package="veRL 0.9",
        ways="games, batches and adapters there; adapters back",
        how="by contract: agent loop, reward, `DataProto`, clipped loss, adapters; its trainer needs a card",
        guide="../guides/other_trainers.md#our-games-in-verl",
        tests=(
            f"{_ADAPTERS}/test_verl_environment.py",
            f"{_ADAPTERS}/test_verl_loop.py",
            "tests/srl_agents/exports/test_verl_batches.py",
            "tests/srl_agents/exports/test_verl_adapters.py",
        ),
        target="door-verl",
    ),
    Door(
        package="Tinker (tinker-cookbook 0.6)",
        ways="one seat there",
        how="by contract: rollouts, renderer and training data; its service needs an account",
        guide="../guides/other_trainers.md#our-games-in-tinker",
        tests=(f"{_ADAPTERS}/test_tinker_rollouts.py",),
        target="door-tinker",
    ),
)


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The page in Markdown.

    Args:
        results: of `python -m tests.nightly`, by part.
    """
    lines = [
        "# The road to others",
        "",
        "Written by `python -m tests.nightly`; do not edit. Each door is tried against the real package, the",
        "nightly ones in an environment of their own: `make doors`, or one, such as `make door-openenv`.",
        "",
        "| door | what goes through | when it is tried | how | last result |",
        "|---|---|---|---|---|",
    ]
    for door in DOORS:
        when = f"every night, `make {door.target}`" if door.target else "every commit"
        row = results.get(door.part)
        last = f"{row['date']} at {row['commit']}: {row['result']}" if row else "not recorded yet"
        cells = (f"[{door.package}]({door.guide})", door.ways, when, door.how, last)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
