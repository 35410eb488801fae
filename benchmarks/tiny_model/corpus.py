"""What the tiny model learns from: observations of bots' games, each with the replies of several bots.

All episodes come from the train split. A sample keeps every reply that the bots gave, apart for
those who know nothing and those who can play: the pretraining decides how much of each to imitate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import srl_envs
from srl_envs.families.board.connect_four_bots import read_board
from srl_envs.turns.grammar import CLOSE, action, parse_reply

_PROGRAM_CHARS, _ATTACK_CHARS = 300, 24
"""Longest bodies of code duel that the model is shown."""
_FOOTER = re.compile(r"^[1-9]+$", re.MULTILINE)
_TOLD = re.compile(r"Answer: (\S+)\. You:")
HEIGHT, URGENCY, LINES = 0, 1, 2
Bot = Callable[[str], str]
QUESTIONS, LABELS = 2 + 4 * 9, 12
"""Kinds of notes, and labels of each."""
_BACKWARD = ((0, -1), (-1, 0), (-1, -1), (-1, 1))
"""Steps on the board to cells that were read before: (row from the top, column)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One observation and what bots replied to it."""

    source: str
    prompt: str
    naive: tuple[str, ...]
    """Replies of bots that apply the rules without skill."""
    skilled: tuple[str, ...]
    """Replies of bots that can play."""
    notes: tuple[tuple[int, int, int], ...] = ()
    """(character of the prompt, question, label): what a training-only head has to predict there."""
    spans: tuple[tuple[int, int], ...] = ()
    """(start, end) characters of the prompt that are worth predicting: answers that follow later."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One environment under one set of options."""

    env_id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    share: float
    """Share of the corpus."""
    skill: float
    """Weight of the skilled replies in what the finished model imitates; the rest is naive."""

    @property
    def name(self) -> str:
        """Environment and options, for reports."""
        return " ".join([self.env_id, *(f"{k}={v}" for k, v in self.options.items())])


def connect_four(share: float, rows: int, cols: int, k: int, skill: float = 0.3) -> Source:
    """Connect four on one board."""
    options = {"rows": rows, "cols": cols, "k": k}
    return Source(env_id="connect_four-v0", options=options, share=share, skill=skill)


def math_duel(share: float, difficulty: int, problems: int) -> Source:
    """Math duel at one difficulty."""
    options = {"difficulty": difficulty, "problems": problems}
    return Source(env_id="math_duel-v0", options=options, share=share, skill=0.75)


def code_duel(share: float, difficulty: int) -> Source:
    """Code duel at one difficulty."""
    options = {"difficulty": difficulty}
    return Source(env_id="code_duel-v0", options=options, share=share, skill=0.4)


def small_game(env_id: str, share: float, **options: Any) -> Source:
    """A game whose rules are one token and whose state is short."""
    return Source(env_id=env_id, options=options, share=share, skill=0.4)


SOURCES: tuple[Source, ...] = (
    connect_four(0.13, 5, 5, 3, skill=0.15),
    connect_four(0.10, 5, 4, 3, skill=0.15),
    connect_four(0.20, 6, 7, 4, skill=0.25),
    connect_four(0.01, 4, 4, 3),
    connect_four(0.01, 6, 6, 4),
    connect_four(0.01, 7, 8, 4),
    connect_four(0.01, 8, 9, 5),
    math_duel(0.085, 1, 1),
    math_duel(0.06, 1, 3),
    math_duel(0.08, 1, 5),
    math_duel(0.01, 1, 10),
    math_duel(0.01, 2, 5),
    math_duel(0.005, 3, 5),
    math_duel(0.005, 4, 5),
    math_duel(0.005, 5, 5),
    code_duel(0.03, 1),
    code_duel(0.03, 2),
    code_duel(0.03, 3),
    small_game("nim-v0", 0.06),
    small_game("kuhn_poker-v0", 0.03),
    small_game("iterated_dilemma-v0", 0.03),
    small_game("negotiation-v0", 0.03),
    small_game("sealed_auction-v1", 0.03),
)


def draw(
    source: Source, count: int, rng: np.random.Generator, *, split: str = "train"
) -> list[Sample]:
    """``count`` samples of the bots' games on random seeds."""
    samples: list[Sample] = []
    games = _GAMES.get(source.env_id, _bots_games)(source, rng, split)
    while len(samples) < count:
        samples += next(games)
    return samples[:count]


def _bots(source: Source, rng: np.random.Generator) -> dict[str, Bot]:
    names = srl_envs.spec(source.env_id).bots
    return {n: srl_envs.make_bot(source.env_id, n, seed=int(rng.integers(2**31))) for n in names}


def _observations(
    source: Source, rng: np.random.Generator, split: str, players: Mapping[str, Bot]
) -> Iterator[list[str]]:
    """What the seats on move saw, one list per episode; each seat draws a player per episode."""
    env: Any = srl_envs.make(source.env_id, split=split, **source.options)
    seen: list[str] = []

    def watch(observations: dict[str, dict[str, Any]], step: srl_envs.Step) -> None:
        seen.extend(observations[env.possible_agents[seat]]["text"] for seat in step.replies)

    while True:
        drawn = rng.choice(list(players), size=len(env.possible_agents))
        seats = {
            seat: _clumsy(players[name], players["random"], rng) for seat, name in enumerate(drawn)
        }
        seen.clear()
        srl_envs.play(env, seats, seed=int(rng.integers(2**31)), on_step=watch)
        yield list(seen)


def _clumsy(bot: Bot, random_bot: Bot, rng: np.random.Generator) -> Bot:
    """The bot, with a random move now and then so that its games differ and can go wrong."""

    def act(text: str) -> str:
        roll = rng.random()
        if roll < 0.01:
            return "?"  # shows what is said to an unreadable reply
        return random_bot(text) if roll < 0.3 else bot(text)

    return act


def _connect_four_games(
    source: Source, rng: np.random.Generator, split: str
) -> Iterator[list[Sample]]:
    bots = _bots(source, rng)
    players = {"random": bots["random"], "middle": bots["middle"]}
    for texts in _observations(source, rng, split, players):
        samples = [_columns(source, text) for text in texts]
        yield [sample for sample in samples if rng.random() < _interest(sample, source)]


def _interest(sample: Sample, source: Source) -> float:
    """Share kept of such positions: full columns are rare, and quiet positions teach little."""
    if len(sample.naive) < source.options["cols"]:
        return 1.0
    return 0.7 if len(sample.skilled) < len(sample.naive) else 0.2


def _columns(source: Source, text: str) -> Sample:
    """Naive: any open column. Skilled: a winning one, else one that the other needs, else any."""
    board = read_board(text)
    columns = board.open_columns()
    wins = [c for c in columns if board.wins(c, board.mine)]
    blocks = [c for c in columns if board.wins(c, board.theirs)]
    footer = _FOOTER.search(text)
    start = footer.start() if footer else 0
    notes = [(start + c, HEIGHT, board.heights[c]) for c in range(board.cols)]
    notes += [(start + c, URGENCY, (c in wins) + 2 * (c in blocks)) for c in columns]
    notes += open_lines(text[:start].split("\n")[-board.rows - 1 : -1], board.k, start)
    return Sample(
        source.name,
        text,
        naive=tuple(action(c + 1) for c in columns),
        skilled=tuple(action(c + 1) for c in wins or blocks or columns),
        notes=tuple(notes),
    )


def open_lines(grid: list[str], k: int, footer: int) -> list[tuple[int, int, int]]:
    """Notes at the end of each row on the lines that end in it: which lack one piece, whose, where.

    Label 0: no such line; else 1 + the place of the gap, plus k if the pieces are O.
    """
    rows, cols = len(grid), len(grid[0])
    first = footer - rows * (cols + 1)
    notes = []
    for row in range(rows):
        for col in range(cols):
            for direction, (down, right) in enumerate(_BACKWARD):
                if row + (k - 1) * down < 0 or not 0 <= col + (k - 1) * right < cols:
                    continue
                line = "".join(grid[row + i * down][col + i * right] for i in range(k))
                pieces = line.replace(".", "")
                label = 0
                if len(pieces) == k - 1 and pieces in ("X" * (k - 1), "O" * (k - 1)):
                    label = 1 + line.index(".") + (k if pieces[0] == "O" else 0)
                last = first + row * (cols + 1) + cols - 1
                notes.append((last, LINES + 9 * direction + col, label))
    return notes


def _math_duel_games(
    source: Source, rng: np.random.Generator, split: str
) -> Iterator[list[Sample]]:
    """Skilled: the right answer, at any stake; to know one's chances is left to learn."""
    bots = _bots(source, rng)
    for texts in _observations(source, rng, split, bots):
        yield [
            Sample(
                source.name,
                text,
                naive=tuple(bots["random"](text) for _ in range(4)),
                skilled=_at_any_stake(bots["strong"](text)),
                spans=tuple(found.span(1) for found in _TOLD.finditer(text)),
            )
            for text in texts
        ]


def _at_any_stake(reply: str) -> tuple[str, ...]:
    answer, semicolon, _ = reply.rpartition(";")
    return tuple(f"{answer}; {stake}{CLOSE}" for stake in (1, 2, 3)) if semicolon else (reply,)


def _code_duel_games(
    source: Source, rng: np.random.Generator, split: str
) -> Iterator[list[Sample]]:
    """Programs are shown but not run: what a seat sees does not depend on how they do."""
    env: Any = srl_envs.make(source.env_id, split=split, **source.options)
    bots = _bots(source, rng)
    naive, skilled = ["random"] * 6, ["strong", "strong", "middle", "middle", "middle"]
    while True:
        observations, _ = env.reset(seed=int(rng.integers(2**31)))
        text = observations[env.possible_agents[0]]["text"]
        writing = _coding_sample(source, text, bots, naive, skilled)
        programs = [
            str(parse_reply(str(rng.choice(replies)), _PROGRAM_CHARS)[0])
            for replies in (writing.naive, writing.skilled)
        ]
        state = env.get_state()["state"] | {"programs": programs, "passed": [0, 0]}
        seat = int(rng.integers(2))
        text = env.header + env.game.observe(env.game.decode(state), seat)
        yield [writing, _coding_sample(source, text, bots, naive, skilled)]


def _coding_sample(
    source: Source, text: str, bots: Mapping[str, Bot], naive: list[str], skilled: list[str]
) -> Sample:
    short = _short_attack if "PHASE: ATTACK" in text else _short_program
    replies = [
        tuple(r for name in names if (r := short(bots[name](text)))) for names in (naive, skilled)
    ]
    return Sample(source.name, text, naive=replies[0], skilled=replies[1] or replies[0])


def _short_program(reply: str) -> str | None:
    return reply if len(reply) <= _PROGRAM_CHARS else None


def _short_attack(reply: str) -> str:
    """As many of the inputs as fit the limit."""
    inputs = json.loads(str(parse_reply(reply, 8192)[0]))
    while len(json.dumps(inputs)) > _ATTACK_CHARS:
        inputs.pop()
    return action(f"\n{json.dumps(inputs)}\n")


def _bots_games(source: Source, rng: np.random.Generator, split: str) -> Iterator[list[Sample]]:
    """Positions of games between all the bots, with what the random and the strong bot would reply."""
    bots = _bots(source, rng)
    players = {name: bot for name, bot in bots.items() if name != "held_out"}
    for texts in _observations(source, rng, split, players):
        yield [
            Sample(
                source.name,
                text,
                naive=tuple(bots["random"](text) for _ in range(3)),
                skilled=tuple(bots["strong"](text) for _ in range(2)),
            )
            for text in texts
        ]


_GAMES: Mapping[str, Callable[[Source, np.random.Generator, str], Iterator[list[Sample]]]] = {
    "connect_four-v0": _connect_four_games,
    "math_duel-v0": _math_duel_games,
    "code_duel-v0": _code_duel_games,
}
"""Games of which more is taught than what bots reply."""
