"""Partners that agree on a code without meaning.

This module depends on no game. The sender reads a private list of items out of its prompt, the receiver a
public one. There are two codes: the message is the word at the number of the subset in an agreed
vocabulary (`Codebook`), or, where few words are legal, the one among them that puts the most items of the
private list first in an order that both agreed on for every word (`AgreedOrders`). Which list is the
private one is found by trying all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np

import srl_envs
from srl_envs.redteam import matches
from srl_envs.redteam.attacks import Turn
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.intervals import Mean, mean_of
from srl_envs.redteam.reading import examples, first_word, with_first_word, word_lists
from srl_envs.redteam.search import best_bot

_SPEAKING = 3
"""Words that are tried for one number where a word is refused."""
_DRAWS = 6000
_RESETS = 200
_LONGEST_SUBSET = 3
_CHOICE = 60
"""Legal messages that are drawn where they are not listed."""
_MIN_SEEDS, _SEEDS = 6, 24
_FIRST_SEED = 3_000_000


def agreed_words(env: Any) -> list[str]:
    """The vocabulary, in the alphabet's order: words of random legal messages and of public lists."""
    rng = np.random.default_rng(0)
    found: set[str] = set()
    for seed in range(_RESETS):
        observations, _ = env.reset(seed=seed)
        seat = next(s for s, a in enumerate(env.possible_agents) if observations[a]["can_act"])
        found |= {first_word(env.sample_legal(seat, rng)) for _ in range(_DRAWS // _RESETS)}
        lists = word_lists(observations[env.possible_agents[seat]]["text"])
        found |= {item for items in lists.values() for item in items if item.isalpha()}
    return sorted(found - {""})


def subset_at(index: int, count: int, size: int) -> tuple[int, ...] | None:
    """The subset of ``size`` of ``count`` items at a place in the order of `itertools.combinations`."""
    if not 0 <= index < comb(count, size):
        return None
    chosen: list[int] = []
    for item in range(count):
        with_item = comb(count - item - 1, size - len(chosen) - 1) if len(chosen) < size else 0
        if len(chosen) == size:
            break
        if index < with_item:
            chosen.append(item)
        else:
            index -= with_item
    return tuple(chosen)


def index_of(chosen: Sequence[int], count: int) -> int:
    """The inverse of `subset_at`."""
    index, taken = 0, 0
    for item in range(count):
        if taken == len(chosen):
            break
        if item == chosen[taken]:
            taken += 1
        else:
            index += comb(count - item - 1, len(chosen) - taken - 1)
    return index


class Codebook:
    """Both sides of the convention.

    Args:
        words: the agreed vocabulary.
        label: of the private list that the sender passes on.
    """

    def __init__(self, words: Sequence[str], label: str) -> None:
        self._words, self._label = list(words), label
        self._places = {word: place for place, word in enumerate(self._words)}

    def reply(self, turn: Turn) -> str:
        """Send where the prompt's example is one word and a number, else guess by the last word."""
        lists = word_lists(turn.text)
        public = max(lists.values(), key=len, default=[])
        shown = next((body for body in examples(turn.text) if body), "")
        items = [item for item in lists.get(self._label, []) if item in public]
        known = turn.legal
        heard = self._heard(turn.text, public)
        if any(part in public or part in known for part in shown.split(", ")) or heard:
            body = ", ".join(heard) or turn.sample(np.random.default_rng(turn.number))
        else:
            body = self._message(items, public, shown, turn.retries)
        return f"<action>{body}</action>"

    def _message(self, items: list[str], public: list[str], shown: str, retries: int) -> str:
        size = self._size(len(items), len(public))
        if not size:
            return shown
        chosen = sorted(public.index(item) for item in items[:size])
        place = (index_of(chosen, len(public)) * _SPEAKING + retries) % len(self._words)
        return with_first_word(shown, self._words[place], size)

    def _size(self, items: int, public: int) -> int:
        room = len(self._words) // _SPEAKING
        sizes = range(1, min(_LONGEST_SUBSET, items) + 1)
        return max((size for size in sizes if comb(public, size) <= room), default=0)

    def _heard(self, text: str, public: list[str]) -> list[str]:
        """The items that the last agreed word of the last lines stands for."""
        tail = (
            [word.strip(".,:;'\"").lower() for word in text.splitlines()[-1].split()]
            if text
            else []
        )
        for at, word in enumerate(tail[:-1]):
            size = tail[at + 1]
            if word in self._places and size.isdigit() and word not in public:
                chosen = subset_at(self._places[word] // _SPEAKING, len(public), int(size))
                return [public[item] for item in chosen or ()]
        return []


class AgreedOrders:
    """Both sides of the other convention: every word stands for an order of the items.

    Args:
        label: of the private list that the sender passes on.
    """

    def __init__(self, label: str) -> None:
        self._label, self._sent = label, ""

    def reply(self, turn: Turn) -> str:
        """Send the legal word with the best order; guess the first items of the last word's order."""
        lists = word_lists(turn.text)
        longest: list[str] = max(lists.values(), key=len, default=[])
        public = sorted(longest)
        wanted = {item for item in lists.get(self._label, []) if item in public}
        rng = np.random.default_rng(turn.number)
        moves = list(dict.fromkeys(turn.legal or (turn.sample(rng) for _ in range(_CHOICE))))
        guesses = [move for move in moves if set(move.split(", ")) <= set(public)]
        if 2 * len(guesses) > len(moves) and self._sent in turn.text:
            order = _order(self._sent, [item for item in public if item not in _gone(turn.text)])
            return f"<action>{', '.join(order[: max(1, _LONGEST_SUBSET - turn.retries)])}</action>"
        best = sorted(moves, key=lambda move: -_led(_order(first_word(move), public), wanted))
        body = best[min(turn.retries, len(best) - 1)]
        self._sent = first_word(body)
        return f"<action>{body}</action>"


def _order(word: str, items: Sequence[str]) -> list[str]:
    return sorted(items, key=lambda item: hashlib.sha256(f"{word}/{item}".encode()).digest())


def _led(order: Sequence[str], wanted: set[str]) -> int:
    """How many items stand first of which all are wanted."""
    return next((k for k, item in enumerate(order) if item not in wanted), len(order))


def _gone(text: str) -> set[str]:
    """Items of the longest list that a shorter copy of it no longer has."""
    lists = sorted(word_lists(text).values(), key=len)
    longest = set(lists[-1]) if lists else set()
    rest = [set(items) for items in lists[:-1] if 2 * len(items) > len(longest)]
    return longest - rest[0] if rest and rest[0] < longest else set()


def labels(env: Any) -> list[str]:
    """Labels of lists that not all seats see alike, in the order of the prompts."""
    observations, _ = env.reset(seed=0)
    seen = [word_lists(observations[agent]["text"]) for agent in env.possible_agents]
    every = dict.fromkeys(label for lists in seen for label in lists)
    return [label for label in every if any(o.get(label) != seen[0].get(label) for o in seen[1:])]


def earnings(
    env: Any, code: str, words: Sequence[str], label: str, seeds: Sequence[int]
) -> list[float]:
    """What the pair earns, per seed; ``code`` is one of `CODES`."""
    n = len(env.possible_agents)
    policy: Callable[[Turn], str] = CODES[code](words, label)
    return [matches.play(env, dict.fromkeys(range(n), policy), seed).outcomes[0] for seed in seeds]


CODES: dict[str, Callable[[Sequence[str], str], Callable[[Turn], str]]] = {
    "subsets": lambda words, label: Codebook(words, label).reply,
    "orders": lambda _words, label: AgreedOrders(label).reply,
}
"""Convention -> what makes both of its sides."""


def probe(env_id: str, report: Report, allowance: Allowance) -> None:
    """Try every private list; adds a finding where the best convention beats strong partners."""
    if srl_envs.spec(env_id).mode != "cooperative":
        return
    with matches.opened(env_id) as env:
        words = agreed_words(env)
        options = labels(env)
        codes = [code for code in CODES if code != "subsets" or len(words) >= 26 * _SPEAKING]
        plans = [(code, label) for code in codes for label in options]
        if not plans:
            return
        scored = {
            (code, label): float(np.mean(earnings(env, code, words, label, range(3))))
            for code, label in plans
        }
    code, label = max(scored, key=lambda plan: scored[plan])
    seeds = _SEEDS if allowance.left() else _MIN_SEEDS
    case = {"probe": "codebook", "target": env_id, "code": code, "label": label, "seeds": seeds}
    allowance.spend(3 * len(plans) + 2 * seeds)
    gain, mine, theirs = _beside_strong(case)
    report.measures.update(
        codebook=mine, codebook_gain=gain.value, codebook_half=gain.half, strong_team=theirs
    )
    found = _judged(case, gain, mine, theirs)
    if found is not None:
        report.findings.append(found)


def check(case: Case) -> Finding | None:
    """Play the convention again beside what strong partners earn on the same seeds."""
    return _judged(case, *_beside_strong(case))


def _beside_strong(case: Case) -> tuple[Mean, float, float]:
    """What the convention gains above strong partners, what it earns, and what they do."""
    env_id = case["target"]
    strong = best_bot(env_id) or "random"
    seeds = range(_FIRST_SEED, _FIRST_SEED + case["seeds"])
    with matches.opened(env_id) as env:
        mine = earnings(env, case["code"], agreed_words(env), case["label"], seeds)
        bots = dict.fromkeys(range(len(env.possible_agents)), strong)
        theirs = [matches.play(env, bots, seed).outcomes[0] for seed in seeds]
    gain = mean_of([a - b for a, b in zip(mine, theirs, strict=True)])
    return gain, float(np.mean(mine)), float(np.mean(theirs))


def _judged(case: Case, gain: Mean, mine: float, theirs: float) -> Finding | None:
    if gain.low <= 0:
        return None
    return Finding(
        kind="codebook_without_meaning", target=case["target"],
        observed=f"a code of {case['code']} for {case['label']!r} earns {mine:.3f}",
        expected=f"at most what strong partners earn, {theirs:.3f}",
        detail=f"gain {gain}", case=case,
    )  # fmt: skip
