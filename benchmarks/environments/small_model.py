"""Can a small language model sit in every environment, and how often does it reply legally?

    python -m benchmarks.environments.small_model [--model smollm2-135m] [--positions 8] [--json FILE]

Per environment, positions of random play on eval seeds are given to the untrained model, as its users
would (observation as the user's message), and with two earlier turns of random play shown before
("shown"). A reply is legal if the environment would accept it at the first try. Then whole episodes
are played, the model in one seat and random bots in the others, with all retries and fallbacks; an
exception ends the program.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import srl_envs
from srl_agents.agents import ModelPolicy, ScriptedPolicy
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.prompt import Prompt
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts
from srl_envs.errors import IllegalMoveError
from srl_envs.turns.grammar import action, parse_reply

SHOWN = 2
REPLY_TOKENS, PROGRAM_TOKENS = 64, 160


class Position(NamedTuple):
    """A seat on move."""

    state: Any
    seat: int
    text: str
    reply: str
    """What the random bot did there."""


def positions(env_id: str, count: int, split: srl_envs.core.Split) -> list[Position]:
    """Positions spread over random play, one from each episode."""
    env = srl_envs.make(env_id, split=split)
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        observations, _ = env.reset(seed=seed)
        episode = []
        while env.agents:
            joint = {}
            for seat, agent in enumerate(env.possible_agents):
                if observations[agent]["can_act"]:
                    body = env.sample_legal(seat, rng)
                    joint[agent] = action(body)
                    text = observations[agent]["text"]
                    episode.append(Position(env._state, seat, text, joint[agent]))
            observations, *_ = env.step(joint)
        found.append(episode[int(rng.integers(len(episode)))])
    env.close()
    return found


def legal_share(
    engine: TransformersEngine, env_id: str, cases: list[Position]
) -> tuple[float, str]:
    """Share of the replies that are accepted, and an example of one that is not."""
    env = srl_envs.make(env_id)
    requests = [
        GenerationRequest(observation=case.text, version=None, key=(n,))
        for n, case in enumerate(cases)
    ]
    replies = asyncio.run(engine.generate_together(requests))
    legal, refused = 0, ""
    for case, reply in zip(cases, replies, strict=True):
        body, problem = parse_reply(reply.text, env.game.max_action_chars)
        if body is not None:
            try:
                env.game.parse(case.state, case.seat, body)
                legal += 1
                continue
            except IllegalMoveError as error:
                problem = str(error)
        refused = f"{reply.text[:120]!r}: {problem}"
    env.close()
    return legal / len(cases), refused


def play(engine: TransformersEngine, env_id: str, episodes: int) -> dict[str, Any]:
    """Whole episodes; how they ended."""
    runner = Rollouts(
        {"model": ModelPolicy(engine), "random": ScriptedPolicy("random")}, root_seed=0
    )
    env = srl_envs.make(env_id)
    seats = len(env.possible_agents)
    env.close()
    specs = [
        MatchSpec(
            env_id=env_id,
            options={},
            seed=seed,
            split="eval",
            seats=tuple("model" if seat == seed % seats else "random" for seat in range(seats)),
            cluster=str(seed),
        )
        for seed in range(episodes)
    ]
    played = runner.play(specs)
    runner.close()
    return {
        "episodes": len(played),
        "ended": sorted(episode.termination for episode in played),
        "faults": [episode.fault for episode in played if episode.fault],
    }


def main() -> None:
    """Measure every environment, print a table, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--positions", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument(
        "--envs",
        nargs="*",
        default=None,
        help="ids; all by default; the rows of others stay in the file",
    )
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/small_model.json"))
    options = parser.parse_args()
    base = BaseModel.load(options.model)
    rows: dict[str, Any] = {}
    if options.envs and options.json.exists():
        rows = json.loads(options.json.read_text())
    print(
        "| environment | legal | legal, two turns shown | episodes |\n|---|--:|--:|---|", flush=True
    )
    for env_id in options.envs or [name for name in srl_envs.list_envs() if "/" not in name]:
        started = time.process_time()
        tokens = PROGRAM_TOKENS if _writes_programs(env_id) else REPLY_TOKENS
        engine = TransformersEngine(base, SamplingSettings(max_new_tokens=tokens))
        cases = positions(env_id, options.positions, "eval")
        plain, refused = legal_share(engine, env_id, cases)
        shown = tuple((case.text, case.reply) for case in positions(env_id, SHOWN, "train"))
        prompted = BaseModel.load(options.model, prompt=Prompt(examples=shown))
        helper = TransformersEngine(prompted, SamplingSettings(max_new_tokens=tokens))
        helped, refused_shown = legal_share(helper, env_id, cases)
        rows[env_id] = {
            "legal": plain,
            "legal_shown": helped,
            "refused": refused,
            "refused_shown": refused_shown,
            "play": play(engine, env_id, options.episodes),
            "cpu_s": round(time.process_time() - started, 1),
        }
        ended = ", ".join(rows[env_id]["play"]["ended"])
        print(f"| `{env_id}` | {plain:.0%} | {helped:.0%} | {ended} |", flush=True)
        text = json.dumps(dict(sorted(rows.items())), indent=2, ensure_ascii=False)
        options.json.write_text(text + "\n")


def _writes_programs(env_id: str) -> bool:
    return srl_envs.spec(env_id).entry_point.startswith("srl_envs.families.coding")


if __name__ == "__main__":
    main()
