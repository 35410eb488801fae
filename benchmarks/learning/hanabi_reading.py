"""Does a model read its hand? How likely it plays a card, by what the seat can know of the card.

    python -m benchmarks.learning.hanabi_reading MODEL [--run RUN] [--positions 150]

Positions come from games of the random and the middle bot in the smallest Hanabi on eval seeds. Moves are
scored whole, token by token, and their probabilities set against those of all legal moves. With
``--run`` the exported adapters of that run are read, too.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel

from benchmarks.learning.small_games import HANABI
from benchmarks.tiny_model.report import Position, TinyPlayer, positions
from srl_envs.families.cards.hanabi_mini_bots import read_table
from srl_envs.turns.grammar import action

ENV = "hanabi_mini-v0"
_BATCH_ROWS = 64


def chances(player: TinyPlayer, found: Sequence[Position]) -> list[dict[str, float]]:
    """For each position, its legal moves and their probabilities among all replies."""
    rows = [(i, body) for i, p in enumerate(found) for body in p.game.legal(p.state, p.seat) or ()]
    moves: list[dict[str, float]] = [{} for _ in found]
    for start in range(0, len(rows), _BATCH_ROWS):
        part = rows[start : start + _BATCH_ROWS]
        scores = logprobs(player, [(found[i].text, action(body)) for i, body in part])
        for (i, body), score in zip(part, scores, strict=True):
            moves[i][body] = float(np.exp(score))
    return moves


@torch.inference_mode()
def logprobs(player: TinyPlayer, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Of each (observation, reply), end token included."""
    end = player.tokenizer.eos_token_id
    prompts = [player.encode(text) for text, _ in pairs]
    replies = [[*ids, end] for ids in player.tokenizer([reply for _, reply in pairs])["input_ids"]]
    rows = [torch.tensor([*prompt, *reply]) for prompt, reply in zip(prompts, replies, strict=True)]
    ids_BT = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    logprobs_BTV = player.model(ids_BT).logits.log_softmax(dim=-1)
    return [
        sum(float(logprobs_BTV[row, len(prompts[row]) - 1 + k, t]) for k, t in enumerate(reply))
        for row, reply in enumerate(replies)
    ]


def reading(player: TinyPlayer, found: Sequence[Position]) -> dict[str, float]:
    """Means over positions; what they are means of."""
    values: dict[str, list[float]] = defaultdict(list)
    for position, moves in zip(found, chances(player, found), strict=True):
        total = sum(moves.values())
        values["all legal moves"].append(total)
        table = read_table(position.text)
        for card, marks in enumerate(table.own, 1):
            kind = "could be either"
            if all(map(table.playable, table.could_be(marks))):
                kind = "can be played"
            elif not any(map(table.playable, table.could_be(marks))):
                kind = "cannot be played"
            values[f"plays a card that, by its clues, {kind}"].append(moves[f"play {card}"] / total)
        [partner] = table.others.values()
        helpful = [
            moves[f"clue {who} {clue}"]
            for who, clue, named, after in table.possible_clues()
            if clue.isdigit()
            and any(table.playable(partner.cards[i]) for i in named)
            and any(after[i] != partner.known[i] for i in named)
        ]
        if helpful:
            values["names a card to play, where there is one"].append(sum(helpful) / total)
    return {name: float(np.mean(each)) for name, each in sorted(values.items())}


def main() -> None:
    """Print a table: what, then the model and each adapter."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="folder of a model of `small_games`")
    parser.add_argument("--run", type=Path, help="a finished training run of it")
    parser.add_argument("--positions", type=int, default=150)
    options = parser.parse_args()
    game = HANABI[ENV]
    found = positions(ENV, game.options, options.positions, bots=("random", "middle"))
    player = TinyPlayer(options.model)
    columns = {"start": reading(player, found)}
    for folder in sorted((options.run / "adapters").iterdir()) if options.run else ():
        player = TinyPlayer(options.model)
        player.model = PeftModel.from_pretrained(player.model, folder).eval()
        columns[folder.name] = reading(player, found)
    print("| |" + "".join(f" {name} |" for name in columns))
    print("|---|" + "--:|" * len(columns))
    for what in columns["start"]:
        print(f"| {what} |" + "".join(f" {column[what]:.2f} |" for column in columns.values()))


if __name__ == "__main__":
    main()
