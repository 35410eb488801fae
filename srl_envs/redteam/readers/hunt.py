"""Search over attack programs, and the confirmation of the best on instances that the search never saw.

The search plays seeds of its own, in growing numbers: a program goes on while it is among the best, and the
best have children. What it earns counts above what the strong bot earns with the same seed in the same
seat. The best of each company are then played on fresh seeds, and an interval by betting, which holds
however often one looks, says what they gain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.attacks import Attack
from srl_envs.redteam.betting import Interval, interval
from srl_envs.redteam.budget import Allowance, cpu_s
from srl_envs.redteam.matches import Player
from srl_envs.redteam.readers import codes
from srl_envs.redteam.readers.features import HAS, bounds, clocks
from srl_envs.redteam.readers.learned import Explorer, Learned, untrained
from srl_envs.redteam.readers.programs import Move, Reader, Rule, Threshold
from srl_envs.redteam.reading import examples
from srl_envs.redteam.search import ITSELF, best_bot, scores_teams

AnyProgram = Reader | Learned
ALPHA = 0.05
"""Chance of any wrong interval of one attack."""
_WATCHED = 6
"""Episodes per company from which features and bodies are read."""
_MOST_BODIES = 12
_LONGEST_BODY = 80  # characters
_SHIFTS = (-2, -1, 1, 2)
_FACTORS = (0.5, 0.75, 1.25, 1.5)
_MOST_CLOCKS = 2
_WORDS = 0.2
"""Chance that a test is one of a word, where there are numbers."""
_RANKS = 5
_FIRST_SEEDS, _MOST_SEEDS = 8, 512
_BEAM, _CHILDREN = 6, 36
_MOST_RULES = 4
_ANSWER_STEPS = 60
_LEARNED_MOVES, _LESSONS, _LESSON_SEEDS = 6, 3, 100
_TEACHES_FROM = 3_000_000
_CONFIRMED = 2
"""Programs per company that are played on fresh seeds."""
_LOOK_SEEDS, _CONFIRM_SEEDS = 40, 3000
_ENOUGH = 0.02
"""Half a width of the interval at which a confirmation ends."""
_WEIGHTY = 0.45
"""Part of what is left that strong bots, then a team of copies, get."""
_SEARCH, _FIRST = 0.55, 0.7
"""Parts of a company's budget: for the search, and of the rest for the best program."""
_FRESH = 6_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A program that was played on fresh instances."""

    program: AnyProgram
    company: str
    gain: Interval
    """Reward above the strong bot's with the same seeds and seats."""
    earned: float
    strong: float
    cpu_s: float
    """Processor time of the search and the confirmation in this company."""


@dataclass(frozen=True, slots=True)
class Room:
    """A game, and who sits in its other seats."""

    env: Any
    company: str
    """A bot's name; `ITSELF` for a whole team of the same program."""
    strong: str
    """The bot that programs are compared with."""
    known: dict[int, float] = field(default_factory=dict)
    """Seed -> what the strong bot earns."""

    def earned(self, player: Player, seed: int) -> float:
        """Reward in the seat that the seed draws; the mean over seats for a team."""
        seats = len(self.env.possible_agents)
        if self.company == ITSELF:
            rewards = matches.play(self.env, dict.fromkeys(range(seats), player), seed).rewards
            return sum(rewards) / seats
        seat = int(np.random.default_rng([seed, 11]).integers(seats))
        players = matches.company(player, seat, self.company, seats)
        return float(matches.play(self.env, players, seed).rewards[seat])

    def gain(self, player: Player, seed: int) -> float:
        """What ``player`` earns above the strong bot with this seed."""
        if seed not in self.known:
            self.known[seed] = self.earned(self.strong, seed)
        return self.earned(player, seed) - self.known[seed]


@dataclass(frozen=True, slots=True)
class Material:
    """What programs are made of."""

    moves: tuple[Move, ...]
    bounds: dict[str, list[float]]
    """Feature -> thresholds."""
    clocks: tuple[str, ...] = ()
    """Features that count turns."""

    def switches(self, strong: str) -> list[AnyProgram]:
        """The strong bot up to some turn, then the largest or smallest move; and the other way round."""
        bot = Move(kind="bot", name=strong)
        found: list[AnyProgram] = []
        for name in self.clocks[:_MOST_CLOCKS]:
            for bound in self.bounds.get(name, ()):
                tests = (Threshold(feature=name, bound=bound),)
                for other in (Move(kind="rank", position=place) for place in (0.0, 1.0)):
                    found += [
                        Reader(rules=(Rule(tests=tests, move=first),), move=last)
                        for first, last in ((bot, other), (other, bot))
                    ]
        return found

    def draw_rule(self, rng: np.random.Generator) -> Rule:
        """One test, sometimes two, and a move."""
        words = [name for name in self.bounds if name.startswith(HAS)]
        figures = [name for name in self.bounds if not name.startswith(HAS)]
        names = figures if figures and rng.random() > _WORDS else words or figures
        count = min(1 + int(rng.random() < 0.25), len(names))
        tests = [
            Threshold(feature=name, bound=float(rng.choice(self.bounds[name])))
            for name in (names[int(rng.integers(len(names)))] for _ in range(count))
        ]
        return Rule(tests=tuple(tests), move=self.draw_move(rng))

    def draw_move(self, rng: np.random.Generator) -> Move:
        """One of the moves, each kind as likely as every other."""
        kinds = list(dict.fromkeys(move.kind for move in self.moves))
        kind = kinds[int(rng.integers(len(kinds)))]
        same = [move for move in self.moves if move.kind == kind]
        return same[int(rng.integers(len(same)))]


def watch(env: Any, company: str) -> Material:
    """Read features, bodies and numbers from episodes of bots and of random moves.

    Args:
        env: from `matches.opened`.
        company: who sits at the table.
    """
    env_id, seats = env.env_spec.id, len(env.possible_agents)
    bots = list(srl_envs.spec(env_id).bots)
    players: list[Player] = [company if company in bots else best_bot(env_id) or "random"]
    players += [Attack(kind="random"), *bots]
    texts: list[str] = []
    turns: list[list[str]] = []
    bodies: Counter[str] = Counter()
    for seed in range(_WATCHED):
        episode = matches.play(env, dict.fromkeys(range(seats), players[seed % len(players)]), seed)
        for seen, replies in zip(episode.texts, episode.replies, strict=False):
            texts += [seen[seat] for seat in replies]
        asked = zip(episode.texts, episode.replies, strict=False)
        turns.append([seen[0] for seen, replies in asked if 0 in replies])
        for _, reply in episode.accepted:
            bodies.update(body for body in examples(reply) if len(body) <= _LONGEST_BODY)
    features = bounds(texts)
    numbers = [name for name in features if name.endswith("]")]
    moves = [Move(kind="bot", name=bot, shift=k) for bot in bots for k in (0, *_SHIFTS)]
    moves += [Move(kind="bot", name=bot, factor=by) for bot in bots for by in _FACTORS]
    moves += [Move(kind="rank", position=k / (_RANKS - 1)) for k in range(_RANKS)]
    moves += [Move(kind="number", name=name, shift=k) for name in numbers for k in (0, -1, 1)]
    moves += [Move(kind="constant", name=body) for body, _ in bodies.most_common(_MOST_BODIES)]
    moves += [*(Move(kind="past", shift=k) for k in (-1, 0, 1)), Move(kind="refuse")]
    moves += [Move(kind="answer", name=bot) for bot in bots if bot == company]
    if company == ITSELF or srl_envs.spec(env_id).strangers:  # the latter to see that it fails
        starts = [_start(env, seed) for seed in range(_WATCHED)]
        moves += [Move(kind="code", name=label) for label in codes.labels(starts)]
    return Material(tuple(moves), features, tuple(clocks(turns)))


def _start(env: Any, seed: int) -> list[str]:
    observations, _ = env.reset(seed=seed)
    return [observations[agent]["text"] for agent in env.possible_agents]


def changed(program: Reader, material: Material, rng: np.random.Generator) -> Reader:
    """A neighbour: a rule more or less, another threshold, another or a shifted move."""
    rules = list(program.rules)
    choice = int(rng.integers(6)) if rules else int(rng.integers(2))
    at = int(rng.integers(len(rules))) if rules else 0
    if choice == 0 and material.bounds and len(rules) < _MOST_RULES:
        rules.insert(at, material.draw_rule(rng))
    elif choice in (0, 1):
        return replace(program, move=_moved(program.move, material, rng))
    elif choice == 2:
        rules.pop(at)
    elif choice == 3:
        rules[at] = replace(rules[at], move=_moved(rules[at].move, material, rng))
    elif choice == 4:
        rules[at] = material.draw_rule(rng)
    else:
        tests = list(rules[at].tests)
        k = int(rng.integers(len(tests)))
        tests[k] = replace(tests[k], bound=float(rng.choice(material.bounds[tests[k].feature])))
        rules[at] = replace(rules[at], tests=tuple(tests))
    return replace(program, rules=tuple(rules))


def _moved(move: Move, material: Material, rng: np.random.Generator) -> Move:
    if move.kind in ("bot", "number", "past") and rng.random() < 0.5:
        if rng.random() < 0.3:
            return replace(move, factor=float(rng.choice([1.0, *_FACTORS])))
        return replace(move, shift=move.shift + int(rng.choice(_SHIFTS)))
    return material.draw_move(rng)


def search(
    room: Room, material: Material, rng: np.random.Generator, allowance: Allowance
) -> list[AnyProgram]:
    """The best programs, best first; the strong bot itself is none.

    Args:
        room: game and company.
        material: moves and features.
        rng: draws children.
        allowance: ends the search, also in the middle of a generation.
    """
    itself = Reader(move=Move(kind="bot", name=room.strong))
    gains: dict[AnyProgram, list[float]] = {Reader(move=move): [] for move in material.moves}
    gains.update({program: [] for program in material.switches(room.strong)})
    alive: list[AnyProgram] = list(gains)
    seeds = _FIRST_SEEDS
    ranked = _trial(room, alive, gains, seeds, allowance)
    taught = teach(room, ranked, material, rng, allowance.part(0.25))
    gains.update({program: [] for program in taught})
    alive += taught
    while True:
        ranked = _trial(room, alive, gains, seeds, allowance)
        if not allowance.left():
            return [program for program in ranked if program != itself][:_CONFIRMED]
        kept = ranked[: max(_BEAM, len(ranked) // 4)]
        ranked = _trial(room, kept, gains, 4 * seeds, allowance)[:_BEAM]
        readers = [program for program in ranked if isinstance(program, Reader)]
        parents = readers or [itself]
        children = [
            changed(parents[int(rng.integers(len(parents)))], material, rng)
            for _ in range(_CHILDREN)
        ]
        fresh = [child for child in dict.fromkeys(children) if child not in gains]
        gains.update({child: [] for child in fresh})
        alive = [*ranked, *fresh]
        seeds = min(seeds + 2, _MOST_SEEDS // 4)


def teach(
    room: Room, ranked: Sequence[AnyProgram], material: Material, rng: np.random.Generator,
    allowance: Allowance,
) -> list[AnyProgram]:  # fmt: skip
    """Policies that learn when to take which of the best moves, one per lesson.

    Args:
        room: game and company.
        ranked: programs of one move, best first.
        material: has the features.
        rng: explores.
        allowance: ends the lessons.
    """
    moves = [program.move for program in ranked if isinstance(program, Reader)]
    cheap = [move for move in moves if move.kind not in ("answer", "refuse")]
    explorer = Explorer(untrained(cheap[:_LEARNED_MOVES], material.bounds), rng)
    taught: list[AnyProgram] = []
    for lesson in range(_LESSONS):
        for number in range(_LESSON_SEEDS):
            if not allowance.left():
                return taught
            seed = _TEACHES_FROM + lesson * _LESSON_SEEDS + number
            explorer.earn(room.gain(explorer, seed))
            allowance.spend()
        explorer.policy = explorer.improved()
        taught.append(explorer.policy)
    return taught


def _trial(
    room: Room, programs: Sequence[AnyProgram], gains: dict[AnyProgram, list[float]], seeds: int,
    allowance: Allowance,
) -> list[AnyProgram]:  # fmt: skip
    """Play every program on the first ``seeds`` seeds; ranked by the mean less half an error."""
    for program in programs:
        for seed in range(len(gains[program]), seeds):
            if not allowance.left():
                break
            gains[program].append(room.gain(program, seed))
            allowance.spend(price(program))
    played = [program for program in programs if gains[program]]
    return sorted(played, key=lambda program: -_careful(gains[program]))


def _careful(gains: Sequence[float]) -> float:
    spread = float(np.std(gains)) + 0.5 / len(gains)
    return float(np.mean(gains) - 0.5 * spread / np.sqrt(len(gains)))


def price(program: AnyProgram) -> int:
    """Steps of a budget that an episode of ``program`` takes; best answers try many moves."""
    used = (
        [program.move, *(rule.move for rule in program.rules)]
        if isinstance(program, Reader)
        else []
    )
    return _ANSWER_STEPS if any(move.kind == "answer" for move in used) else 1


def confirm(
    room: Room, program: AnyProgram, alpha: float, seeds: int = _CONFIRM_SEEDS,
    allowance: Allowance | None = None,
) -> tuple[Interval, float, float]:  # fmt: skip
    """Play fresh seeds until the interval is narrow, or time is up.

    Args:
        room: game and company.
        program: what is judged.
        alpha: chance of a wrong interval.
        seeds: most seeds.
        allowance: ends it after the first look; None plays all seeds.

    Returns:
        Gain, what the program earns, and what the strong bot does.
    """
    gains: list[float] = []
    while True:
        part = range(_FRESH + len(gains), _FRESH + min(seeds, len(gains) + _LOOK_SEEDS))
        gains += [room.gain(program, seed) for seed in part]
        if allowance is not None:
            allowance.spend((1 + price(program)) * len(part))
        stops = allowance is not None and not allowance.left()
        if len(gains) >= seeds or stops or len(gains) % (8 * _LOOK_SEEDS) == 0:
            found = interval(gains, least=-2.0, most=2.0, alpha=alpha)
            narrow = allowance is not None and found.high - found.low <= 2 * _ENOUGH
            if len(gains) >= seeds or stops or narrow:
                strong = float(np.mean([room.known[_FRESH + k] for k in range(len(gains))]))
                return found, strong + found.mean, strong


def tables(env_id: str) -> list[str]:
    """Companies in the order of their weight: strong bots, one's own copies, then the other bots."""
    strong = best_bot(env_id)
    others = [bot for bot in srl_envs.spec(env_id).bots if bot != strong]
    return [*([strong] if strong else []), *([ITSELF] if scores_teams(env_id) else []), *others]


def alpha_of(env_id: str) -> float:
    """Chance of error of one confirmation, so that all of an attack hold jointly."""
    return ALPHA / (_CONFIRMED * len(tables(env_id)))


def read_program(data: dict[str, Any]) -> AnyProgram:
    """The inverse of a program's ``to_data``."""
    return Learned.from_data(data) if "weights" in data else Reader.from_data(data)


def hunt(
    env_id: str, seed: int, allowance: Allowance, companies: Sequence[str] = ()
) -> Iterator[Found]:
    """The best programs of each company, confirmed.

    Args:
        env_id: a registered id.
        seed: of the search.
        allowance: for all companies.
        companies: all of `tables` by default.
    """
    strong = best_bot(env_id)
    if strong is None:
        return
    names = companies or tables(env_id)
    with matches.opened(env_id) as env:
        for number, company in enumerate(names):
            weighty = company in (strong, ITSELF)
            last = 1 / (len(names) - number)
            part = allowance.part(_WEIGHTY if weighty and last < 1 else last)
            started = cpu_s()
            room = Room(env, company, strong)
            rng = np.random.default_rng([seed, number, 3])
            best = search(room, watch(env, company), rng, part.part(_SEARCH))
            for place, program in enumerate(best):
                if (number or place) and not allowance.left():
                    return
                rest = part.part(1.0 if place == len(best) - 1 else _FIRST)
                gain, mine, theirs = confirm(room, program, alpha_of(env_id), allowance=rest)
                yield Found(
                    program=program, company=company, gain=gain, earned=mine, strong=theirs,
                    cpu_s=cpu_s() - started,
                )  # fmt: skip
