"""What the tiny model can do: legal replies, right answers, how it reads the board, who it beats.

All on the eval split, at temperature 1, with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

import srl_envs
from srl_envs.core import Game, Split
from srl_envs.errors import IllegalMoveError
from srl_envs.families.board.connect_four_bots import read_board
from srl_envs.families.reasoning.math_duel import is_correct, parse_move
from srl_envs.families.reasoning.math_duel_bots import present_problem, solve
from srl_envs.turns.grammar import OPEN, parse_reply

BOARDS: tuple[dict[str, int], ...] = (
    {"rows": 6, "cols": 7, "k": 4},
    {"rows": 5, "cols": 5, "k": 3},
    {"rows": 5, "cols": 4, "k": 3},
)
SMALL_GAMES = (
    "nim-v0", "kuhn_poker-v0", "iterated_dilemma-v0", "negotiation-v0", "sealed_auction-v1",
)  # fmt: skip
"""Further games whose moves the model writes; the strong bot's tables show what is left to learn."""
CODE_TOKENS = 160
"""Room for a program of the corpus."""
Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Position:
    """A seat on move, with what is needed to judge its reply."""

    text: str
    game: Game[Any, Any]
    state: Any
    seat: int

    def accepts(self, reply: str) -> bool:
        """Whether the reply is well-formed and legal."""
        body, _ = parse_reply(reply, self.game.max_action_chars)
        if body is None:
            return False
        try:
            self.game.parse(self.state, self.seat, body)
        except IllegalMoveError:
            return False
        return True


class TinyPlayer:
    """The model as text in, text out, many prompts at once."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left")

    def encode(self, text: str) -> list[int]:
        """Token ids of one user message, ready for the reply."""
        ids: list[int] = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        return ids

    @torch.inference_mode()
    def replies(self, texts: Sequence[str], *, seed: int, max_new_tokens: int = 16) -> list[str]:
        """One reply per prompt, sampled at temperature 1."""
        prompts = [self.encode(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda i: len(prompts[i]))
        written: dict[int, str] = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for start in range(0, len(order), 64):
                rows = order[start : start + 64]
                batch = self.tokenizer.pad(
                    {"input_ids": [prompts[i] for i in rows]}, return_tensors="pt"
                )
                width = batch["input_ids"].shape[1]
                ids = self.model.generate(
                    **batch,
                    generation_config=GenerationConfig(
                        do_sample=True, top_k=0, max_new_tokens=max_new_tokens,
                        eos_token_id=self.tokenizer.eos_token_id,
                        pad_token_id=self.tokenizer.pad_token_id,
                    ),
                )  # fmt: skip
                texts_out = self.tokenizer.batch_decode(ids[:, width:], skip_special_tokens=True)
                written.update(zip(rows, texts_out, strict=True))
        return [written[i] for i in range(len(texts))]

    @torch.inference_mode()
    def next_token(self, text: str, reply: str) -> torch.Tensor:
        """(V,) probabilities of the token after the beginning of a reply."""
        begun = self.tokenizer(reply)["input_ids"]
        logits_V = self.model(torch.tensor([self.encode(text) + begun])).logits[0, -1]
        return torch.softmax(logits_V, dim=0)


def positions(
    env_id: str,
    options: Options,
    count: int,
    *,
    seed: int = 0,
    bots: Sequence[str] = ("random",),
    split: Split = "eval",
) -> list[Position]:
    """Positions out of bots' games."""
    rng = np.random.default_rng([seed, 4])
    env: Any = srl_envs.make(env_id, split=split, **options)
    found: list[Position] = []
    while len(found) < count:
        observations, _ = env.reset(seed=int(rng.integers(2**31)))
        players = [
            srl_envs.make_bot(env_id, str(rng.choice(bots)), seed=int(rng.integers(2**31)))
            for _ in env.possible_agents
        ]
        while env.agents:
            state = env.game.decode(env.get_state()["state"])
            replies = {}
            for seat, agent in enumerate(env.possible_agents):
                if observations[agent]["can_act"]:
                    text = observations[agent]["text"]
                    found.append(Position(text, env.game, state, seat))
                    replies[agent] = players[seat](text)
            observations, *_ = env.step(replies)
    order = rng.permutation(len(found))[:count]
    return [found[i] for i in order]


def coding_positions(
    difficulty: int, count: int, *, seed: int = 0
) -> tuple[list[Position], list[Position]]:
    """``count`` positions of each phase of code duel. No program is run: the attack phase shows a
    bot's program, whatever it scored.
    """
    rng = np.random.default_rng([seed, 5])
    env: Any = srl_envs.make("code_duel-v0", split="eval", difficulty=difficulty)
    bots = [srl_envs.make_bot("code_duel-v0", n, seed=seed) for n in ("random", "middle")]
    writing, attacking = [], []
    for _ in range(count):
        observations, _ = env.reset(seed=int(rng.integers(2**31)))
        text = observations["player_0"]["text"]
        data = env.get_state()["state"]
        writing.append(Position(text, env.game, env.game.decode(data), 0))
        programs = [str(parse_reply(bot(text), 8192)[0]) for bot in bots]
        state = env.game.decode(data | {"programs": programs, "passed": [0, 0]})
        seat = int(rng.integers(2))
        text = env.header + env.game.observe(state, seat)
        attacking.append(Position(text, env.game, state, seat))
    return writing, attacking


def legal_share(
    player: TinyPlayer, cases: Sequence[Position], *, max_new_tokens: int = 16
) -> float:
    """Share of sampled replies that are legal."""
    replies = player.replies([c.text for c in cases], seed=5, max_new_tokens=max_new_tokens)
    return float(np.mean([c.accepts(r) for c, r in zip(cases, replies, strict=True)]))


def mean_outcome(
    player: TinyPlayer, env_id: str, options: Options, bot: str, games: int, *, seed: int = 0
) -> tuple[float, float]:
    """(share won, share lost) against a bot; seeds in pairs with the seats swapped."""
    outcomes = []
    envs: list[Any] = [srl_envs.make(env_id, split="eval", **options) for _ in range(games)]
    live = {i: env.reset(seed=seed + i // 2)[0] for i, env in enumerate(envs)}
    bots = [srl_envs.make_bot(env_id, bot, seed=seed + i) for i in range(games)]
    turn = 0
    while live:
        seats = {i: envs[i].possible_agents[i % 2] for i in live}
        mine = [i for i in live if live[i][seats[i]]["can_act"]]
        texts = [live[i][seats[i]]["text"] for i in mine]
        written = dict(zip(mine, player.replies(texts, seed=seed + turn), strict=True))
        for i in list(live):
            actions = {
                agent: written[i] if agent == seats[i] else bots[i](live[i][agent]["text"])
                for agent in envs[i].agents
                if live[i][agent]["can_act"]
            }
            live[i] = envs[i].step(actions)[0]
            if not envs[i].agents:
                outcomes.append(envs[i].outcomes[i % 2])
                del live[i]
        turn += 1
    return float(np.mean([o > 0 for o in outcomes])), float(np.mean([o < 0 for o in outcomes]))


def urgent_mass(
    player: TinyPlayer, options: Options, count: int, *, kind: str = "wins", seed: int = 0
) -> tuple[float, float]:
    """Where a column wins at once: (probability that the model gives to such columns, share of
    the open columns that they are). ``kind="blocks"``: the same for columns that the other needs.
    """
    mass, uniform = [], []
    cases = positions("connect_four-v0", options, 12 * count, seed=seed, bots=("random", "middle"))
    for case in cases:
        board = read_board(case.text)
        columns = board.open_columns()
        wins = [c for c in columns if board.wins(c, board.mine)]
        blocks = [c for c in columns if board.wins(c, board.theirs)]
        urgent = wins if kind == "wins" else [] if wins else blocks
        if not 0 < len(urgent) < len(columns):
            continue
        names = player.tokenizer.convert_tokens_to_ids([str(c + 1) for c in urgent])
        mass.append(float(player.next_token(case.text, OPEN)[names].sum()))
        uniform.append(len(urgent) / len(columns))
        if len(mass) == count:
            break
    return float(np.mean(mass)), float(np.mean(uniform))


def right_share(
    player: TinyPlayer, difficulty: int, count: int, *, split: Split = "eval"
) -> tuple[float, float, float]:
    """(share right, share passed, mean stake) of sampled answers in math duel."""
    cases = positions("math_duel-v0", {"difficulty": difficulty}, count, split=split)
    replies = player.replies([c.text for c in cases], seed=6)
    right, passed, stakes = [], [], []
    for case, reply in zip(cases, replies, strict=True):
        if not case.accepts(reply):
            right.append(False)
            continue
        move = parse_move(str(parse_reply(reply, 100)[0]))
        answer = solve(present_problem(case.text))
        right.append(is_correct(move, str(answer)))
        passed.append(move.answer is None)
        stakes.append(move.stake)
    return float(np.mean(right)), float(np.mean(passed)), float(np.mean(stakes))


def measure(player: TinyPlayer) -> dict[str, dict[str, float]]:
    """Every number of the model card: environment with options -> name -> number."""
    report: dict[str, dict[str, float]] = {}
    for options in BOARDS:
        report["connect_four " + _words(options)] = _measure_board(player, options)
    for difficulty in range(1, 6):
        report[f"math_duel difficulty {difficulty}"] = _measure_math(player, difficulty)
    for difficulty in (1, 2, 3):
        report[f"code_duel difficulty {difficulty}"] = _measure_code(player, difficulty)
    for env_id in SMALL_GAMES:
        report[env_id] = _measure_small(player, env_id)
    return report


def _measure_small(player: TinyPlayer, env_id: str) -> dict[str, float]:
    cases = positions(env_id, {}, 200)
    return {
        "legal": legal_share(player, cases, max_new_tokens=32),
        "prompt tokens": _longest(player, cases),
        "prompt tokens, median": float(np.median([len(player.encode(c.text)) for c in cases])),
    }


def _measure_board(player: TinyPlayer, options: Options) -> dict[str, float]:
    cases = positions("connect_four-v0", options, 400)
    row = {"legal": legal_share(player, cases), "prompt tokens": _longest(player, cases)}
    for kind in ("wins", "blocks"):
        row[f"{kind} found"], row[f"{kind} uniform"] = urgent_mass(player, options, 150, kind=kind)
    for bot in ("random", "middle"):
        won, lost = mean_outcome(player, "connect_four-v0", options, bot, 200)
        row |= {f"won against {bot}": won, f"lost against {bot}": lost}
    return row


def _measure_math(player: TinyPlayer, difficulty: int) -> dict[str, float]:
    cases = positions("math_duel-v0", {"difficulty": difficulty}, 200)
    right, passed, stake = right_share(player, difficulty, 300)
    return {
        "legal": legal_share(player, cases),
        "prompt tokens": _longest(player, cases),
        "right": right,
        "right on train": right_share(player, difficulty, 300, split="train")[0],
        "passed": passed,
        "mean stake": stake,
    }


def _measure_code(player: TinyPlayer, difficulty: int) -> dict[str, float]:
    writing, attacking = coding_positions(difficulty, 60)
    return {
        "legal programs": legal_share(player, writing, max_new_tokens=CODE_TOKENS),
        "legal attacks": legal_share(player, attacking, max_new_tokens=CODE_TOKENS),
        "prompt tokens": _longest(player, [*writing, *attacking]),
    }


def _longest(player: TinyPlayer, cases: Sequence[Position]) -> float:
    return max(len(player.encode(case.text)) for case in cases)


def _words(options: Options) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())


_CARD = """---
license: apache-2.0
language: en
---

# tiny

The embedded default model of SRL: a Llama of {parameters:,} parameters ({kib:,.0f} KiB of float16
weights, which load as float32) with its own byte-level BPE tokenizer of {vocabulary} tokens, in which the
rules that open a prompt and each half row of a board are single tokens. It has learned the rules of
SRL's environments and little else: it writes legal but weak moves, and is meant to be trained. It
cannot hold a conversation.

Made by `{command}`
in {minutes:.0f} minutes of one CPU thread. Nothing was downloaded: the corpus is {samples:,} observations
of games between SRL's own bots (train split), each with replies of a random bot and of bots that
can play. First the model imitates mostly the latter; then, on boards and in code duels, mostly the
former, so that it has learned to read positions but plays weakly. The same command and seed give
the same weights on the same machine; another kind of processor rounds differently.

Licence: Apache-2.0, as the rest of SRL.

## Numbers

Eval split, temperature 1. No problem of it occurs in train: the model has learned the sums that it saw
("right on train") and has not learned to add. "Found" is the probability that the model gives to columns that
win at once (or that the other player needs); "uniform" is their share of the open columns.

{table}
"""


def model_card(
    settings: Any, player: TinyPlayer, folder: Path, command: str, minutes: float
) -> str:
    """README of the folder."""
    report = measure(player)
    lines = ["| environment | measured |", "| --- | --- |"]
    for name, row in report.items():
        cells = ", ".join(
            f"{key} {value:.0f}" if key.startswith("prompt tokens") else f"{key} {value:.2f}"
            for key, value in row.items()
        )
        lines.append(f"| {name} | {cells} |")
    return _CARD.format(
        parameters=sum(p.numel() for p in player.model.parameters()),
        kib=(folder / "model.safetensors").stat().st_size / 1024,
        vocabulary=len(player.tokenizer),
        command=command,
        minutes=minutes,
        samples=settings.samples,
        table="\n".join(lines),
    )
