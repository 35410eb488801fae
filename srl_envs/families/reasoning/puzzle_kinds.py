"""Kinds of puzzle of the library `reasoning-gym`: steps of difficulty, how an answer is read, what names it.

Chosen are kinds whose checker runs nothing that stands in an answer (that of `n_queens` and others calls
``eval``), pays every right answer in full (`futoshiki` and `survo` have puzzles with two solutions, and pay
one), and whose answers few guesses meet. An answer is read here first, strictly, and
handed to the checker in the one form that the library documents.

Source: arXiv:2505.24760 (Reasoning Gym), release 0.1.25.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from srl_envs.core import require_action
from srl_envs.distribution import install_command
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError

EXTRA = "puzzles"
"""Extra of the distribution that brings the library."""
STEPS = 4
MOST_MOVES = 60
"""Presses or steps of one answer."""
FEWEST_EDGES = 4
_MORE_BEHIND = 0.8
_MOST_CHANGES = 60
"""Changes of one part that are tried for a wrong answer."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NUMBERS = 2**31
"""Puzzles of a kind and a step are numbered from 0 to this, less 1."""
_PRESS = re.compile(r"[A-Ca-c]")
_BETWEEN = re.compile(r"(?:\s|,|;|→|->|>)*")
_ROWS = re.compile(r"[\n;|/]+")
_PAIR = re.compile(r"\"?(\d{1,2})\"?\s*[:=]\s*(\d{1,2})")
_ROLE = re.compile(r"([A-Z][a-z]{1,15}) is an? ([a-z]{2,12})")
_WORD = re.compile(r"[a-z0-9]{1,40}")
_LIST = re.compile(r"[\s,;]+")
_BITS = re.compile(r"[01]{2,9}")
_AROUND_PAIRS = re.compile(r"[\s,;{}]")
_AROUND_ROLES = re.compile(r"\band\b|[\s,.;]")
_BOTH_ROLES = re.compile(r"So who is (an? [a-z]+) and who is (an? [a-z]+)\?")
Entry = Mapping[str, Any]


def library() -> Any:
    """The package; imported when the first puzzle is made.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import reasoning_gym  # noqa: PLC0415 - optional, and takes a second
    except ImportError as error:
        raise ConfigError(
            f"puzzles need the library reasoning-gym: {install_command(EXTRA)} ({error})."
        ) from None
    return reasoning_gym


# --- reading answers ----------------------------------------------------------------------------


def read_word(body: str) -> str:
    """One word."""
    word = body.strip().lower()
    require_action(_WORD.fullmatch(word) is not None, "write one word")
    return word


def read_presses(body: str) -> str:
    """Letters of buttons; commas, spaces and arrows between them may stand."""
    require_action(
        not _BETWEEN.sub("", _PRESS.sub("", body)), "write the buttons A, B, C in order, like A B A"
    )
    presses = [press.upper() for press in _PRESS.findall(body)]
    require_action(0 < len(presses) <= MOST_MOVES, f"press 1 to {MOST_MOVES} buttons")
    return " → ".join(presses)


def read_path(body: str) -> str:
    """Directions."""
    steps = _LIST.split(body.strip(" ,;.\n").lower())
    require_action(
        set(steps) <= {"up", "down", "left", "right"}, "write directions: up, down, left or right"
    )
    require_action(len(steps) <= MOST_MOVES, f"take at most {MOST_MOVES} steps")
    return " ".join(steps)


def read_grid(body: str) -> str:
    """Rows of 0 and 1, on lines of their own or with semicolons between."""
    rows = ["".join(row.split()) for row in _ROWS.split(body.strip(" ;.\n"))]
    rows = [row for row in rows if row]
    fits = rows and all(map(_BITS.fullmatch, rows)) and len(rows) <= 9
    require_action(bool(fits), "write rows of 0 and 1 with semicolons between, like 1 0 1; 0 1 1")
    require_action(len(set(map(len, rows))) == 1, "all rows need the same number of digits")
    return "\n".join(" ".join(row) for row in rows)


def read_colors(body: str) -> str:
    """Vertex and color, vertex and color, as in JSON."""
    pairs = _PAIR.findall(body)
    rest = _AROUND_PAIRS.sub("", _PAIR.sub("", body))
    require_action(bool(pairs) and not rest, 'write vertices and colors, like {"0": 1, "1": 2}')
    colors = {str(int(vertex)): int(color) for vertex, color in pairs}
    require_action(len(colors) == len(pairs), "a vertex is written twice")
    return json.dumps(colors)


def read_roles(body: str) -> str:
    """Who is what."""
    found = _ROLE.findall(body)
    rest = _AROUND_ROLES.sub("", _ROLE.sub("", body))
    require_action(
        bool(found) and not rest, 'write who is what, like "Ava is a knight, and Noah is a knave"'
    )
    require_action(len({name for name, _ in found}) == len(found), "a name is written twice")
    return ", and ".join(
        f"{name} is {'an' if role[0] in 'aeiou' else 'a'} {role}" for name, role in found
    )


# --- what names a puzzle ------------------------------------------------------------------------


def _grid_key(meta: Mapping[str, Any]) -> object:
    """The least of the eight turns and reflections of a map."""
    rows, views = [tuple(row) for row in meta["matrix"]], []
    for _ in range(4):
        rows = list(zip(*rows[::-1], strict=True))
        views += [tuple(rows), tuple(row[::-1] for row in rows)]
    return min(views)


def _sums_key(meta: Mapping[str, Any]) -> object:
    sums = tuple(meta["row_sums"]), tuple(meta["col_sums"])
    return min(sums, sums[::-1])


def _statements_key(meta: Mapping[str, Any]) -> object:
    """The least form of all statements under any names."""
    said = meta["statements"]
    orders = permutations(range(len(said)))
    return min(repr([_renamed(said[who], order) for who in _inverse(order)]) for order in orders)


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda who: order[who])


def _renamed(statement: Any, order: Sequence[int]) -> Any:
    if isinstance(statement, tuple):
        return tuple(_renamed(part, order) for part in statement)
    return statement if isinstance(statement, str) else order[int(statement)]


def _lock_key(meta: Mapping[str, Any]) -> object:
    buttons = sorted((b["type"], b["value"], b["active_state"]) for b in meta["buttons"])
    return meta["target_value"], tuple(buttons)


# --- kinds --------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """One kind of puzzle; its name is the library's."""

    steps: tuple[Mapping[str, Any], ...]
    """Settings of the library's generator, `STEPS` of them, easiest first."""
    read: Callable[[str], str]
    """The body of a move -> the answer as the checker reads it; raises `IllegalMoveError`."""
    key: Callable[[Mapping[str, Any]], object]
    """The library's description of a puzzle -> what is the same for puzzles that are the same task."""
    how: str
    """What to write."""
    token: re.Pattern[str]
    """Regular expression of the parts of an answer that a guess may change."""
    alphabet: tuple[str, ...]
    """What such a part may be; empty: what the answer itself has."""
    length_told: bool = True
    """Whether the question shows how many parts an answer has."""


def _sizes(*sizes: tuple[int, int], low: str, high: str) -> tuple[dict[str, Any], ...]:
    return tuple({low: least, high: most} for least, most in sizes)


KINDS: dict[str, Kind] = {
    "spell_backward": Kind(
        steps=_sizes((3, 4), (5, 6), (7, 8), (9, 10), low="min_word_len", high="max_word_len"),
        read=read_word, key=lambda meta: meta["word"].lower(), how="the word spelled backward",
        token=re.compile(r"[a-z]"), alphabet=tuple(_LETTERS),
    ),
    "quantum_lock": Kind(
        steps=tuple({"difficulty": step} for step in (1, 3, 5, 7)),
        read=read_presses, key=_lock_key, how="the buttons in the order in which you press them",
        token=re.compile(r"[ABC]"), alphabet=("A", "B", "C"), length_told=False,
    ),
    "shortest_path": Kind(
        steps=tuple(
            {"min_rows": low, "max_rows": high, "min_cols": low, "max_cols": high, "p_blocked": share}
            for low, high, share in ((3, 3, 0.2), (4, 5, 0.3), (6, 7, 0.35), (8, 9, 0.35))
        ),
        read=read_path, key=_grid_key, how="the directions; here a path always exists",
        token=re.compile(r"up|down|left|right"), alphabet=("up", "down", "left", "right"), length_told=False,
    ),
    "kakurasu": Kind(
        steps=tuple(
            {"min_rows": rows, "max_rows": rows, "min_cols": cols, "max_cols": cols}
            for rows, cols in ((3, 4), (4, 4), (4, 5), (5, 6))
        ),
        read=read_grid, key=_sums_key, how="the rows with semicolons between",
        token=re.compile(r"[01]"), alphabet=("0", "1"),
    ),
    "graph_color": Kind(
        steps=tuple(
            {"min_num_vertices": size, "max_num_vertices": size, "edge_probability": share}
            for size, share in ((6, 0.4), (8, 0.35), (10, 0.3), (14, 0.25))
        ),
        read=read_colors, key=lambda meta: sorted(meta["puzzle"]["edges"]), how="every vertex with its color",
        token=re.compile(r"(?<=: )\d"), alphabet=("1", "2", "3"),
    ),
    "knights_knaves": Kind(
        steps=tuple({"n_people": people} for people in (2, 3, 4, 5)),
        read=read_roles, key=_statements_key, how="who is what",
        token=re.compile(r"(?<=is )an? [a-z]+"), alphabet=(),
    ),
}  # fmt: skip


class Puzzle(NamedTuple):
    """What an episode keeps of a puzzle; the library makes the rest of it."""

    kind: str
    step: int
    """Of difficulty, from 0."""
    number: int


@lru_cache(maxsize=64)
def _generator(kind: str, step: int) -> Any:
    return library().create_dataset(kind, seed=0, size=_NUMBERS, **KINDS[kind].steps[step])


@lru_cache(maxsize=2048)
def entry_of(puzzle: Puzzle) -> Entry:
    """The library's entry: question, answer and metadata."""
    made: Entry = _generator(puzzle.kind, puzzle.step)[puzzle.number]
    return made


def draw_puzzle(draws: Draws, kind: str, step: int) -> Puzzle:
    """The next one that has a solution and is not trivial."""
    while True:
        puzzle = Puzzle(kind, step, draws.integers(_NUMBERS))
        entry = entry_of(puzzle)
        trivial = kind == "graph_color" and len(entry["metadata"]["puzzle"]["edges"]) < FEWEST_EDGES
        if entry["answer"] != "infeasible" and not trivial:
            return puzzle


def puzzle_key(puzzle: Puzzle) -> tuple[str, str]:
    """What names it, whatever its wording, names, order or turn."""
    return puzzle.kind, repr(KINDS[puzzle.kind].key(entry_of(puzzle)["metadata"]))


def right_answer(puzzle: Puzzle) -> str:
    """An answer that the checker pays in full; of some kinds there are others."""
    entry, kind = entry_of(puzzle), KINDS[puzzle.kind]
    text = entry["answer"] or json.dumps(entry["metadata"]["possible_answer"])
    return kind.read(text.rstrip("."))


def library_score(puzzle: Puzzle, answer: str) -> float:
    """What the library's checker makes of an answer, from 0 to 1; parts of an answer may earn parts."""
    score = float(_generator(puzzle.kind, puzzle.step).score_answer(answer, entry_of(puzzle)))
    # the library means to pay a word with more behind it 0.8; of nine letters its sum of ninths is above 1
    spoiled = puzzle.kind == "spell_backward" and answer != right_answer(puzzle)
    return min(max(score, 0.0), _MORE_BEHIND if spoiled else 1.0)


def is_right(puzzle: Puzzle, answer: str) -> bool:
    """Whether the checker pays it in full."""
    return library_score(puzzle, answer) >= 1.0


# --- wrong answers ------------------------------------------------------------------------------


def parts_of(kind: str, question: str) -> list[str]:
    """What a part of an answer may be, from the text of a question."""
    if kind == "knights_knaves":
        found = _BOTH_ROLES.search(question)
        return list(found.groups()) if found else []
    if kind == "spell_backward":
        return sorted(set(question.rpartition(" ")[2].lower()))
    return list(KINDS[kind].alphabet)


def guess(kind: str, shape: str, choices: Sequence[str], pick: Callable[[int], int]) -> str:
    """A random answer.

    Args:
        kind: its name.
        shape: any answer; has as many parts as the right one where the question shows how many.
        choices: see `parts_of`.
        pick: a random number below its argument.
    """
    made = KINDS[kind]
    if made.length_told:
        return made.token.sub(lambda _: choices[pick(len(choices))], shape)
    return made.read(" ".join(choices[pick(len(choices))] for _ in range(2 + pick(6))))


def wrong_guess(puzzle: Puzzle, draws: Draws) -> str:
    """A random answer that is wrong: what a prompt shows as an example."""
    choices = parts_of(puzzle.kind, entry_of(puzzle)["question"])
    while True:
        made = guess(puzzle.kind, right_answer(puzzle), choices, draws.integers)
        if not is_right(puzzle, made):
            return made


def near_misses(puzzle: Puzzle, count: int, draws: Draws) -> list[str]:
    """Different wrong answers, each the right one with one part changed, or guesses where few are wrong."""
    token, right = KINDS[puzzle.kind].token, right_answer(puzzle)
    parts = list(token.finditer(right))
    choices = parts_of(puzzle.kind, entry_of(puzzle)["question"])
    found: list[str] = []
    for _ in range(_MOST_CHANGES):
        part = parts[draws.integers(len(parts))]
        other = choices[draws.integers(len(choices))]
        changed = right[: part.start()] + other + right[part.end() :]
        if changed not in (right, *found) and not is_right(puzzle, changed):
            found.append(changed)
        if len(found) == count:
            return found
    while len(found) < count:
        made = wrong_guess(puzzle, draws)
        found += [] if made in found else [made]
    return found


def one_line(answer: str) -> str:
    """An answer as prompts show it."""
    return answer.replace("\n", "; ").replace(" → ", " ")
