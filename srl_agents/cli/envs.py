"""`srl envs [ENV]`: list the environments, or explain one with a sample of what a seat sees."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

import numpy as np

import srl_envs
from srl_agents.cli.command_line import print_table, read_options
from srl_agents.cli.options import ListingOptions
from srl_agents.records import plain_json
from srl_envs.core import seat_name
from srl_envs.registry import EnvSpec, adopt

DESCRIPTION = """List every environment that is installed, or explain one of them.

Examples:
  srl envs
  srl envs math_duel-v0
  srl envs --json
"""

SHELL_OPTIONS = {
    "split": "train or eval: no instance is in both where the game is held out (train)",
    "invalid": "a reply without a legal move: retry, forfeit or random_legal (retry)",
    "max_retries": "extra tries per turn, each costs 0.05 (2)",
    "forfeit_after": "default moves taken for a seat before it forfeits (3)",
}
"""Options that every game has, for listings; `srl_envs.parallel.GameEnv` defines them."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl envs --help`."""
    options = read_options(ListingOptions, command="srl envs", description=DESCRIPTION, argv=argv)
    if not options.name:
        specs = [srl_envs.spec(env_id) for env_id in srl_envs.list_envs()]
        if options.json:
            print(plain_json([asdict(spec) for spec in specs], indent=2))
        else:
            _list(specs)
        return 0
    spec = srl_envs.spec(adopt(options.name))
    seat, observation, reply = sample_turn(spec)
    if options.json:
        sample = {"seat": seat, "observation": observation, "reply": reply}
        print(plain_json({**asdict(spec), "sample": sample}, indent=2))
    else:
        print(explain(spec, seat, observation, reply))
    return 0


def sample_turn(spec: EnvSpec) -> tuple[int, str, str]:
    """Seat, observation and a legal reply of the first turn of seed 0."""
    env: Any = srl_envs.make(spec.id)
    try:
        observations, _ = env.reset(seed=0)
        seat = next(
            seat for seat, agent in enumerate(env.possible_agents) if observations[agent]["can_act"]
        )
        text = observations[env.possible_agents[seat]]["text"]
        reply = srl_envs.action(env.sample_legal(seat, np.random.default_rng(0)))
        for bot in list(spec.bots)[:1]:
            reply = srl_envs.make_bot(spec.id, bot)(text)
    finally:
        env.close()
    return seat, text, reply


def explain(spec: EnvSpec, seat: int, observation: str, reply: str) -> str:
    """All that a newcomer needs of one environment."""
    options = {**spec.options, **SHELL_OPTIONS}
    width = max(map(len, options))
    players = " ".join(["human", *(list(spec.bots)[:1] or ["human"]) * (spec.seats - 1)])
    return "\n".join(
        [
            f"{spec.id}: {spec.summary}",
            f"{spec.mode}, {spec.seats} {'seat' if spec.seats == 1 else 'seats'}, "
            + (
                "eval instances never occur in train"
                if spec.held_out
                else "train and eval share starts"
            ),
            "",
            f"Bots: {', '.join(spec.bots) or 'none'}",
            "",
            "Options:",
            *(f"  {name:{width}}  {meaning}" for name, meaning in options.items()),
            "",
            f"What {seat_name(seat)} sees first (seed 0):",
            textwrap.indent(observation, "  | ", lambda _: True),
            "",
            "A legal reply:",
            textwrap.indent(reply, "  | ", lambda _: True),
            "",
            f"Play it:  srl play {spec.id} {players}",
        ]
    )


def _list(specs: list[EnvSpec]) -> None:
    rows = [(s.id, str(s.mode), str(s.seats), ", ".join(s.bots), s.summary) for s in specs]
    heads = ("id", "mode", "seats", "bots", "summary")
    print_table(heads, rows, "`srl envs ID` explains one of them.")
