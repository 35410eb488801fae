"""Scripted players of werewolf: they speak in short plain sentences and read those of others.

They read the observation's text and nothing else: roles that were shown, votes, and of what is said three
things: who claims to be the seer, who is called a werewolf or not one, and whom a player votes for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from srl_envs.core import seat_name
from srl_envs.families.tables.werewolf import SILENCE, random_words
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_PLAYERS = re.compile(r"^WEREWOLF\. Of (\d+) players", re.MULTILINE)
_ME = re.compile(r"^You are player_(\d)\. Your role: (\w+)\.$", re.MULTILINE)
_FELLOWS = re.compile(r"^Werewolves beside you: (.*)\.$", re.MULTILINE)
_LOOKED = re.compile(r"^Night \d+, only for you: player_(\d) (is|is not) a werewolf\.$", re.M)
_PROTECTED = re.compile(r"^Night \d+, only for you: you protected player_(\d)\.$", re.MULTILINE)
_LEFT = re.compile(r"player_(\d) (?:was killed|is out) and was a (\w+)\.$", re.MULTILINE)
_SAID = re.compile(r'^Day (\d), player_(\d): "(.*)"$', re.MULTILINE)
_VOTE_LINE = re.compile(r"^Day \d, vote: (.*?)\. (?:A tie|player_\d is out)", re.MULTILINE)
_CAST = re.compile(r"player_(\d) for player_(\d)")
_DUE = re.compile(r"^(NIGHT|DAY) (\d)\. (?:(Speak) to all|[^:\n]*? one of (player_[^.]*))\.$", re.M)
_DIGIT = re.compile(r"\d")

_SEER = re.compile(r"\bi(?: am|'m) (?:really )?the (?:real )?seer\b", re.IGNORECASE)
_CALLED = re.compile(
    r"player[_ ](\d) (is|was|must be|isn't|is not|was not) (not )?(?:a |the )?(?:were)?wolf", re.I
)
_INTENT = re.compile(r"\bvot(?:e|ing) (?:for )?player[_ ](\d)", re.IGNORECASE)


class Talk(NamedTuple):
    """What one message comes to."""

    day: int
    seat: int
    seer: bool
    """Whether it claims to be the seer."""
    called: tuple[tuple[int, bool], ...]
    """Players, and whether they are called werewolves."""
    votes: int
    """Whom it announces to vote for; -1 for none."""


class Seen(NamedTuple):
    """What a bot reads; players by their number."""

    players: int
    me: int
    role: str
    fellows: tuple[int, ...]
    looked: dict[int, bool]
    """Whom the seer looked at, and whether they are werewolves."""
    protected: int
    """Whom the doctor protected last; -1 for none."""
    shown: dict[int, str]
    """Roles of those who left."""
    talk: tuple[Talk, ...]
    votes: tuple[tuple[tuple[int, int], ...], ...]
    """Per day, who voted for whom."""
    night: bool
    day: int
    speaks: bool
    choices: tuple[int, ...]
    """Whom to name; empty where it speaks."""

    def today(self) -> list[Talk]:
        """What was said today."""
        return [said for said in self.talk if said.day == self.day]

    def seers(self) -> dict[int, dict[int, bool]]:
        """Claimed seers that were not shown to be something else, and what they called whom."""
        claimed: dict[int, dict[int, bool]] = {}
        for said in self.talk:
            if said.seer:
                claimed.setdefault(said.seat, {})
        for said in self.talk:
            if said.seat in claimed:
                claimed[said.seat].update(said.called)
        return {
            seat: called
            for seat, called in claimed.items()
            if self.shown.get(seat, "seer") == "seer" and not self._refuted(called)
        }

    def _refuted(self, called: dict[int, bool]) -> bool:
        return any(
            (self.shown[player] == "werewolf") != is_wolf
            for player, is_wolf in called.items()
            if player in self.shown
        )


def read(text: str) -> Seen:
    """The facts of an observation."""
    count, me, due = _PLAYERS.search(text), _ME.search(text), _DUE.search(text)
    if count is None or me is None or due is None:
        raise ValueError("the text asks for nothing in a game of werewolf")
    fellows, protected = _FELLOWS.search(text), _PROTECTED.findall(text)
    named = due[4] or ""
    return Seen(
        int(count[1]), int(me[1]), me[2],
        tuple(map(int, _DIGIT.findall(fellows[1]))) if fellows else (),
        {int(player): verdict == "is" for player, verdict in _LOOKED.findall(text)},
        int(protected[-1]) if protected else -1,
        {int(player): role for player, role in _LEFT.findall(text)},
        tuple(understood(text)),
        tuple(tuple((int(a), int(b)) for a, b in _CAST.findall(line)) for line in _VOTE_LINE.findall(text)),
        due[1] == "NIGHT", int(due[2]), bool(due[3]), tuple(map(int, _DIGIT.findall(named))),
    )  # fmt: skip


def understood(text: str) -> Iterator[Talk]:
    """The messages of an observation."""
    for day, seat, words in _SAID.findall(text):
        called = tuple(
            (int(player), not (no or "not" in verb or "n't" in verb))
            for player, verb, no in _CALLED.findall(words)
        )
        intents = _INTENT.findall(words)
        vote = int(intents[-1]) if intents else -1
        yield Talk(int(day), int(seat), _SEER.search(words) is not None, called, vote)


def random_bot(rng: np.random.Generator) -> Bot:
    """Words that mean nothing; any player."""

    def act(text: str) -> str:
        seen = read(text)
        return action(random_words(rng) if seen.speaks else seat_name(rng.choice(seen.choices)))

    return act


def silent_bot(rng: np.random.Generator) -> Bot:
    """Silent; names like the middle bot."""
    name = middle_bot(rng)
    return lambda text: action(SILENCE) if read(text).speaks else name(text)


def middle_bot(rng: np.random.Generator) -> Bot:
    """Honest in the village: its seer reports what it saw and is believed; its wolves lie low."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.night:
            return action(seat_name(rng.choice(seen.choices)))
        target = _believed(seen, rng)
        if not seen.speaks:
            return action(seat_name(target))
        if seen.role == "seer" and seen.looked:
            return action(
                f"I am the seer. {_verdicts(seen.looked)} I vote for {seat_name(target)}."
            )
        return action(f"I vote for {seat_name(target)}.")

    return act


def strong_bot(rng: np.random.Generator) -> Bot:
    """Weighs claims and past votes; its seer reports at once; a wolf that is accused claims to be one."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.night:
            return action(seat_name(_by_night(seen, rng)))
        target = _judged(seen, rng)
        return action(_spoken(seen, target) if seen.speaks else seat_name(target))

    return act


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Follows the crowd; one of its wolves plays the seer from the first day. For ratings only."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.night:
            return action(seat_name(_by_night(seen, rng)))
        wolf = seen.role == "werewolf"
        target = _crowd(seen, rng)
        if not seen.speaks:
            return action(seat_name(target))
        plays_seer = wolf and all(seen.me < other for other in seen.fellows)
        if plays_seer:
            accused = f"{seat_name(target)} is a werewolf."
            return action(f"I am the seer. {accused} I vote for {seat_name(target)}.")
        if seen.role == "seer" and any(seen.looked.values()):
            return action(f"I am the seer. {_verdicts(seen.looked)}")
        return action(f"I think it is {seat_name(target)}. I vote for {seat_name(target)}.")

    return act


def _verdicts(looked: dict[int, bool]) -> str:
    """In words; werewolves first, and no more than three, so that it fits a message."""
    ordered = sorted(looked.items(), key=lambda item: not item[1])[:3]
    return " ".join(
        f"{seat_name(player)} {'is' if is_wolf else 'is not'} a werewolf."
        for player, is_wolf in ordered
    )


def _allowed(seen: Seen) -> list[int]:
    """Whom a seat would vote for today: its side's players are spared."""
    spared = {*seen.fellows, *(player for player, wolf in seen.looked.items() if not wolf)}
    inside = [p for p in range(seen.players) if p != seen.me and p not in seen.shown]
    return [player for player in inside if player not in spared] or inside


def _most(scores: dict[int, float], rng: np.random.Generator) -> int:
    """One of the players with the highest score."""
    most = max(scores.values())
    return int(rng.choice([player for player, score in scores.items() if score == most]))


def _found(seen: Seen, allowed: Sequence[int]) -> list[int]:
    """Werewolves that the seer itself has found."""
    return [player for player in allowed if seen.looked.get(player)]


def _believed(seen: Seen, rng: np.random.Generator) -> int:
    """The middle bot's target: whom the first seer calls a werewolf; else any whom it does not clear."""
    allowed = _allowed(seen)
    first: dict[int, bool] = next(iter(seen.seers().values()), {})
    called = [player for player in allowed if first.get(player)]
    free = [player for player in allowed if player not in first]
    return int(rng.choice(_found(seen, allowed) or called or free or allowed))


def _crowd(seen: Seen, rng: np.random.Generator) -> int:
    """The held-out bot's target: whom most say they vote for."""
    allowed = _allowed(seen)
    named = [said.votes for said in seen.today()]
    found = _found(seen, allowed)
    return found[0] if found else _most({p: float(named.count(p)) for p in allowed}, rng)


def _judged(seen: Seen, rng: np.random.Generator) -> int:
    """The strong bot's target: who is most suspect; of several, whom most say they vote for.

    A werewolf goes with the talk, and against the seer that accuses it.
    """
    allowed = _allowed(seen)
    named = [said.votes for said in seen.today()]
    if seen.role == "werewolf":
        accuser = _accuser(seen)
        if accuser in allowed:
            return accuser
        suspect = suspicion(seen)
        return _most({p: 3.0 * named.count(p) + suspect[p] for p in allowed}, rng)
    suspect = suspicion(seen)
    return _most({p: suspect[p] + 0.05 * named.count(p) for p in allowed}, rng)


def suspicion(seen: Seen) -> dict[int, float]:
    """How far each player looks like a werewolf, by claims and past votes."""
    scores = dict.fromkeys(range(seen.players), 0.0)
    seers = seen.seers()
    mine = seen.role == "seer"
    shown = [seat for seat in seers if seat in seen.shown]
    for seat, called in seers.items():
        if mine or (shown and seat not in shown):
            scores[seat] += 6.0  # there is one seer
            continue
        weight = 6.0 if seat in shown else 3.0 / len(seers)
        scores[seat] += -2.0 if len(seers) == 1 else 1.5
        for player, is_wolf in called.items():
            scores[player] += weight if is_wolf else -weight
    for said in seen.talk:
        if said.seer and said.seat not in seers:
            scores[said.seat] += 4.0  # refuted
    for player, is_wolf in seen.looked.items():
        scores[player] += 12.0 if is_wolf else -12.0
    for line in seen.votes:
        for voter, player in line:
            if player in seen.shown:
                scores[voter] += -1.0 if seen.shown[player] == "werewolf" else 0.4
    return scores


def _accuser(seen: Seen) -> int:
    """A seer that is in and calls this seat a werewolf; -1 for none."""
    seers = seen.seers().items()
    return next((s for s, called in seers if called.get(seen.me) and s not in seen.shown), -1)


def _spoken(seen: Seen, target: int) -> str:
    """Words of the strong bot before it votes for the target."""
    vote = f"I vote for {seat_name(target)}."
    if seen.role == "seer" and seen.looked:
        return f"I am the seer. {_verdicts(seen.looked)} {vote}"
    if seen.role == "werewolf" and target == _accuser(seen):
        return f"I am the seer. {seat_name(target)} is a werewolf. {vote}"
    return vote


def _by_night(seen: Seen, rng: np.random.Generator) -> int:
    """Whom the strong bot names: the seer that is known, or who is worth most to its part."""
    seers = [seat for seat in seen.seers() if seat in seen.choices]
    if seen.role == "werewolf":
        pack = sum((seen.me, *seen.fellows))  # the same for all of them, so that they agree
        return min(seers) if seers else seen.choices[(5 * pack + 3 * seen.day) % len(seen.choices)]
    if seen.role == "doctor":
        if seers:
            return min(seers)
        return seen.me if seen.me in seen.choices else int(rng.choice(seen.choices))
    suspect = suspicion(seen)
    fresh = [player for player in seen.choices if player not in seen.looked]
    return _most({player: suspect[player] for player in fresh or seen.choices}, rng)
