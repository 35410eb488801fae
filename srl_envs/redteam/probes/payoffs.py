"""Independent computation of payoffs from the replies, by code that shares nothing with the games.

Every game must keep the sums and ranges of its mode. Where the rules are short, the outcome itself is
recomputed from the prompts' numbers and the accepted moves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.attacks import Attack
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.matches import Episode
from srl_envs.redteam.reading import examples

_CLOSE = 1e-6
_EPISODES = 12


def moves_of(episode: Episode) -> list[tuple[int, str]]:
    """Seat and last line of every accepted action, in order."""
    bodies = ((seat, examples(reply)) for seat, reply in episode.accepted)
    return [(seat, found[-1].splitlines()[-1].strip()) for seat, found in bodies if found]


def _by_round(episode: Episode, seats: int) -> list[list[str]]:
    moves = moves_of(episode)
    each = [[move for seat, move in moves if seat == s] for s in range(seats)]
    return [list(joint) for joint in zip(*each, strict=True)]


def connect_four(episode: Episode) -> Sequence[float] | None:
    """The first line of four; a full board is a draw."""
    board: dict[tuple[int, int], int] = {}
    for seat, move in moves_of(episode):
        column = int(move)
        row = sum(c == column for c, _ in board)
        board[column, row] = seat
        for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
            run = 1
            for sign in (1, -1):
                x, y = column + sign * dx, row + sign * dy
                while board.get((x, y)) == seat:
                    run, x, y = run + 1, x + sign * dx, y + sign * dy
            if run >= 4:
                return [1.0 if s == seat else -1.0 for s in (0, 1)]
    return (0.0, 0.0) if len(board) == 42 else None


def nim(episode: Episode) -> Sequence[float] | None:
    """Who takes the last object wins, or loses if the prompt has that rule."""
    text = episode.texts[0][0]
    heaps = {int(k): int(n) for k, n in re.findall(r"^Heap (\d+):.*\((\d+)\)", text, re.MULTILINE)}
    last = None
    for seat, move in moves_of(episode):
        heap, taken = map(int, move.split())
        heaps[heap] -= taken
        last = seat
    if any(heaps.values()) or last is None:
        return None
    ends = re.search(r"takes the (?:very )?last \w+ (wins|loses)", text)
    if ends is None:
        return None
    winner = last if ends.group(1) == "wins" else 1 - last
    return [1.0 if seat == winner else -1.0 for seat in (0, 1)]


def iterated_dilemma(episode: Episode) -> Sequence[float] | None:
    """Points of the table in the prompt."""
    text = episode.texts[0][0]
    table = {
        (mine, theirs): (int(a), int(b))
        for mine, theirs, a, b in re.findall(
            r"You (\w), \w+ (\w): you get (\d+), \w+ gets (\d+)", text
        )
    }
    rounds = _by_round(episode, 2)
    if not table or len(rounds) != int(re.findall(r"(\d+) rounds", text)[0]):
        return None
    return [float(sum(table[a, b][seat] for a, b in rounds)) for seat in (0, 1)]


def blotto(episode: Episode) -> Sequence[float] | None:
    """The value won less the value lost; only its sign is compared."""
    total = 0
    rounds = _by_round(episode, 2)
    values = [re.findall(r"Field values: ([\d ]+)", texts[0]) for texts in episode.texts]
    for number, (first, second) in enumerate(rounds):
        shown = values[number]
        if not shown:
            return None
        pairs = zip(first.split(), second.split(), map(int, shown[0].split()), strict=True)
        total += sum(v * ((int(a) > int(b)) - (int(a) < int(b))) for a, b, v in pairs)
    return float(total), float(-total)


RECOMPUTED: dict[str, tuple[Callable[[Episode], Sequence[float] | None], bool]] = {
    "connect_four": (connect_four, True),
    "nim": (nim, True),
    "iterated_dilemma": (iterated_dilemma, False),
    "blotto": (blotto, False),
}
"""Game -> its outcome worked out again, and whether it is exact (else only who is ahead is)."""


def unsound(mode: str, outcomes: Sequence[float]) -> str:
    """What is wrong with outcomes of a mode; empty where nothing is."""
    low = 0.0 if mode == "cooperative" else -1.0
    if not all(math.isfinite(x) and low <= x <= 1.0 for x in outcomes):
        return f"outcomes {tuple(outcomes)} are not all in [{low:g}, 1]"
    if mode == "competitive" and abs(sum(outcomes)) > _CLOSE:
        return f"outcomes {tuple(outcomes)} do not sum to 0"
    if mode == "cooperative" and len(set(outcomes)) > 1:
        return f"partners are paid {tuple(outcomes)}"
    return ""


def _sign(x: float) -> int:
    return (x > _CLOSE) - (x < -_CLOSE)


def differs(due: Sequence[float], paid: Sequence[float], *, exact: bool) -> str:
    """How the outcomes differ from those worked out again; empty where they do not."""
    same = all(abs(a - b) <= _CLOSE for a, b in zip(due, paid, strict=True))
    if not exact:
        same = _sign(due[0] - due[1]) == _sign(paid[0] - paid[1])
    return "" if same else f"paid {tuple(paid)}, worked out {tuple(due)}"


def probe(env_id: str, report: Report, allowance: Allowance) -> None:
    """Episodes of every bot against random play and against itself; the first that is paid wrongly."""
    players = [*srl_envs.spec(env_id).bots, ""]
    read = 0
    for number in range(_EPISODES):
        if not allowance.left():
            break
        allowance.spend()
        names = [players[number % len(players)], players[(number // 2) % len(players)]]
        case = {"probe": "payoffs", "target": env_id, "seed": number, "players": names}
        fault, again = _fault(case)
        read += again
        if fault:
            report.findings.append(_finding(case, fault))
            break
    if srl_envs.spec(env_id).name in RECOMPUTED:
        report.measures["payoffs_recomputed"] = read
        if not read:
            report.faults.append("payoffs: no episode could be worked out from the prompt's text")


def _fault(case: Case) -> tuple[str, bool]:
    """What is wrong with the outcome of a case, and whether it was worked out from the prompts."""
    env_id = case["target"]
    chosen = [name or Attack(kind="random") for name in case["players"]]
    with matches.opened(env_id) as env:
        seats = range(len(env.possible_agents))
        episode = matches.play(env, {s: chosen[s % len(chosen)] for s in seats}, case["seed"])
        forfeited = bool(env.forfeited)
    found = srl_envs.spec(env_id)
    fault = unsound(found.mode, episode.outcomes)
    if fault or found.name not in RECOMPUTED or forfeited or len(seats) != 2:
        return fault, False
    again, exact = RECOMPUTED[found.name]
    due = again(episode)
    return ("", False) if due is None else (differs(due, episode.outcomes, exact=exact), True)


def check(case: Case) -> Finding | None:
    """Play a case again and work its outcome out; random legal play stands for an empty name."""
    fault, _ = _fault(case)
    return _finding(case, fault) if fault else None


def _finding(case: Case, fault: str) -> Finding:
    return Finding(
        kind="payoff_differs", target=case["target"], observed=fault,
        expected="what the rules in the prompt come to", case=case,
    )  # fmt: skip
