"""What keys and values in 8 bits cost: log-probabilities of real replies behind prompts that were kept so.

    python -m benchmarks.caching.eight_bits [--model smollm2-135m] [--json FILE]

A few matches are played exactly. Then each reply is read again twice, behind the keys and values of its
prompt as they were computed and behind those that were packed and unpacked, which is what a second request
with that prompt meets. Compared are the log-probabilities of its tokens and the whole distributions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.caching.group_rollouts import GAMES, groups, play
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.places.kv_packing import EightBits
from srl_agents.engines.embedded.prefix_tree import Node
from srl_agents.engines.embedded.row_attention import PassAttention, Stretch, Tails
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.interrupts import EventLoop
from srl_agents.models.base_model import BaseModel
from srl_agents.models.playing_model import PlayingModel
from srl_agents.records import Turn

CLIP = 0.2
"""From which an importance ratio counts as far from 1."""


def turns(base: BaseModel, game: str, options: argparse.Namespace) -> list[Turn]:
    """Of a few matches, spread over their length."""
    with EventLoop() as runner:
        engine = TransformersEngine(
            base, SamplingSettings(max_new_tokens=options.tokens), max_batch_rows=4
        )
        played = play(groups(game, 1, options.attempts), engine, runner, None)
    found = [turn for turn in played.turns.values() if turn.completion_ids]
    return found[:: max(1, len(found) // options.turns)][: options.turns]


def read(model: PlayingModel, node: Node, above: list[Node], keep: Sequence[int]) -> torch.Tensor:
    """(n, V) log-probabilities behind the tokens of a node that ``keep`` names; it has its values then."""
    shape = (model.layers, 2, model.kv_heads, len(node.tokens), model.head_width)
    node.kv = torch.empty(shape, dtype=model.dtype)
    attention = PassAttention(
        tails=Tails(model), stretches=[Stretch(node, 0, above, 0, len(node.tokens))],
        slots_n=torch.tensor([]), all_slots=True, places_n=torch.tensor([]), lengths=[],
    )  # fmt: skip
    positions = torch.arange(node.start, node.stop)
    owners = [(None, len(node.tokens))]
    logits = model.logits(
        torch.tensor(node.tokens), positions, owners, torch.tensor(keep), attention
    )
    return logits.double().log_softmax(-1)


@torch.no_grad()
def compared(model: PlayingModel, turn: Turn) -> dict[str, np.ndarray]:
    """Per token of the reply: how its log-probability moved, and how far the distributions are apart."""
    root = Node((), None, 0)
    prompt = Node(tuple(turn.prompt_ids[:-1]), root, 0)
    read(model, prompt, [], [0])
    eight = EightBits.of(model)
    exact = prompt.kv
    if exact is None:
        raise AssertionError("the prompt was not computed")
    replies = []
    for kv in (exact, eight.unpack(eight.pack(exact))):
        prompt.kv = kv
        tokens = (turn.prompt_ids[-1], *turn.completion_ids[:-1])
        reply = Node(tokens, prompt, prompt.stop)
        replies.append(read(model, reply, [prompt], range(len(tokens))))
    exact_nV, eight_nV = replies
    drawn = torch.tensor(turn.completion_ids)[:, None]
    return {
        "moved": (eight_nV - exact_nV).gather(1, drawn)[:, 0].numpy(),
        "kl": (exact_nV.exp() * (exact_nV - eight_nV)).sum(-1).numpy(),
        "argmax": (exact_nV.argmax(-1) != eight_nV.argmax(-1)).numpy(),
        "cached": np.array([len(prompt.tokens)]),
    }


def summary(found: Sequence[dict[str, np.ndarray]], model: PlayingModel) -> dict[str, Any]:
    """Over all replies of one game."""
    moved, kl, argmax = (
        np.concatenate([each[name] for each in found]) for name in ("moved", "kl", "argmax")
    )
    eight = EightBits.of(model)
    size = np.abs(moved)
    return {
        "replies": len(found),
        "tokens": len(moved),
        "prompt_tokens": int(np.mean([each["cached"] for each in found])),
        "logprob_moved_mean": float(size.mean()),
        "logprob_moved_p99": float(np.quantile(size, 0.99)),
        "logprob_moved_max": float(size.max()),
        "bias": float(moved.mean()),
        "kl_mean": float(kl.mean()),
        "kl_max": float(kl.max()),
        "other_greedy_token": float(argmax.mean()),
        "ratios_beyond_clip": float((np.abs(np.expm1(moved)) > CLIP).mean()),
        "bytes_per_token": model.bytes_per_token,
        "bytes_per_token_8_bits": eight.bytes_per_token,
    }


def main() -> None:
    """Print and save what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--attempts", type=int, default=1, help="matches of each game")
    parser.add_argument("--turns", type=int, default=12, help="replies of each game")
    parser.add_argument("--tokens", type=int, default=24, help="per reply")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    base = BaseModel.load(options.model, device="cpu", dtype="float32")
    model = base.playing()
    model.choose(())
    games = {}
    for game in options.games:
        games[game] = summary([compared(model, turn) for turn in turns(base, game, options)], model)
        print(game, json.dumps(games[game]), flush=True)
    if options.json:
        command = (
            f"python -m benchmarks.caching.eight_bits --model {options.model} --attempts "
            f"{options.attempts} --turns {options.turns} --tokens {options.tokens}"
        )
        options.json.write_text(json.dumps({"command": command, "games": games}, indent=1) + "\n")


if __name__ == "__main__":
    main()
