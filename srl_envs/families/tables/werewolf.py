"""Werewolf: a village talks and votes by day; by night a few of them, who know each other, kill.

Mixed payoffs, 5 to 10 seats. Roles are dealt in secret: werewolves, one seer, one doctor, villagers. Each
night the werewolves name whom to kill, the seer looks at one player, and the doctor protects one. Each day
all who are in speak in turn, one line each that all read, and then vote at the same moment; who gets most
votes is out, a tie removes no player. Roles are shown when a player leaves. The village wins when no
werewolf is left; the werewolves win when they are as many as the others, or when the days are used up.

A seat gets 0.75 or -0.75 by its side, and up to 0.25 either way for its own part: a seat of the village by
the share of its votes that named a werewolf, a werewolf by not being voted out. Otherwise one seat of seven
would learn from a result that the six others decide. Werewolves who name different players leave it to
chance, which is dealt before the game, so that any episode can be continued from any point.

Talk is open and costs nothing, so copies of one policy could agree on any code: six that show each other
their roles earn 0.2 a seat more than strong bots. So a score is what one seat earns among strangers.

A deal of roles, seat by seat, belongs to one split.

Levels: `players=5, talks=0` first, one werewolf and only votes; then talk, 7 players with two werewolves,
and 10 with three.

Measured over 150 deals with 7 players: against strong werewolves a village of strong bots wins 0.85 of its
games, of middle ones 0.19, of random ones 0.03. Over 60 deals in all seats, among middle bots a random one
earns -0.22, a silent one -0.07, another middle one 0.00, the strong one 0.21, each with an interval of 0.09
either way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError
from srl_envs.messages import clean_message, quoted

VILLAGER, WEREWOLF, SEER, DOCTOR = range(4)
ROLES = ("villager", "werewolf", "seer", "doctor")
PLAYERS, DAYS, TALKS, MESSAGE_CHARS = 7, 4, 1, 120
"""Default options."""
SIDE_PAY, OWN_PAY = 0.75, 0.25
SILENCE = "..."
"""The message of a seat that has none."""
NO_SEAT = -1
_CHATTER = (
    "I",
    "think",
    "we",
    "should",
    "wait",
    "who",
    "did",
    "this",
    "trust",
    "me",
    "not",
    "sure",
)
_NAMED = re.compile(r"(?:(?:i |my )?vote(?: is)?(?: for)?:? )?(?:player[_ ]?)?([0-9])")


class Village(NamedTuple):
    """Immutable state."""

    roles: tuple[int, ...]
    first: int
    """Seat that speaks first on the first day; the next one begins on the next day."""
    luck: tuple[tuple[int, ...], ...]
    """Per night, the seats in the order in which chance prefers them as victims."""
    nights: tuple[tuple[int, ...], ...] = ()
    """Per night and seat, whom it named; `NO_SEAT` for seats that slept."""
    killed: tuple[int, ...] = ()
    """Per night, who was killed."""
    said: tuple[tuple[int, int, str], ...] = ()
    """Day, seat and words of each message."""
    votes: tuple[tuple[int, ...], ...] = ()
    """Per day and seat, whom it named; `NO_SEAT` for seats that were out."""
    out: tuple[int, ...] = ()
    """Per day, who was voted out."""
    log: str = ""
    """What all know, as lines."""


Move = str | int
"""A message, or the seat that is named."""


def werewolves(players: int) -> int:
    """How many of the players are werewolves."""
    return 1 if players < 7 else 2 if players < 10 else 3


def living(state: Village) -> list[int]:
    """Seats that are in."""
    return [s for s in range(len(state.roles)) if s not in state.killed and s not in state.out]


def wolves_in(state: Village) -> list[int]:
    """Werewolves that are in."""
    return [seat for seat in living(state) if state.roles[seat] == WEREWOLF]


def is_night(state: Village) -> bool:
    """Whether night comes next, not talk or a vote."""
    return len(state.nights) == len(state.votes)


def speakers(state: Village) -> list[int]:
    """Who speaks today, in order."""
    start = state.first + len(state.votes)
    n = len(state.roles)
    inside = living(state)
    return [seat for k in range(n) if (seat := (start + k) % n) in inside]


def victim(named: Sequence[int], luck: Sequence[int]) -> int:
    """Whom the werewolves kill: the seat that most of them name, or the one of these that chance prefers."""
    most = max(named.count(seat) for seat in named)
    return next(seat for seat in luck if named.count(seat) == most)


def voted_out(votes: Sequence[int]) -> int:
    """The seat that most votes name; `NO_SEAT` where two or more lead."""
    counts = [votes.count(seat) for seat in range(len(votes))]
    most = max(counts)
    return counts.index(most) if counts.count(most) == 1 else NO_SEAT


def payoffs(state: Village) -> tuple[float, ...]:
    """Outcome per seat of a game that is over."""
    village_won = not wolves_in(state)
    paid = []
    for seat, role in enumerate(state.roles):
        if role == WEREWOLF:
            own = -1.0 if seat in state.out else 1.0
        else:
            cast = [vote[seat] for vote in state.votes if vote[seat] != NO_SEAT]
            right = sum(state.roles[named] == WEREWOLF for named in cast)
            own = 2.0 * right / len(cast) - 1.0 if cast else 0.0
        side = 1.0 if (role == WEREWOLF) != village_won else -1.0
        paid.append(SIDE_PAY * side + OWN_PAY * own)
    return tuple(paid)


class Werewolf(Game[Village, Move]):
    """Observation: rules, role, what the seat learnt, what all know. Action: words, or ``player_3``.

    Args:
        players: 5 to 10; 1 werewolf below 7, 3 of 10, else 2.
        days: after which the werewolves win, 2 to 5.
        talks: rounds of talk each day, 0 to 2.
        message_chars: longest message, 20 to 160.

    Raises:
        ConfigError: an option is out of range.
    """

    seats = PLAYERS
    mode = "mixed"
    max_action_chars = 1000
    max_observation_chars = 24_576

    def __init__(
        self,
        *,
        players: int = PLAYERS,
        days: int = DAYS,
        talks: int = TALKS,
        message_chars: int = MESSAGE_CHARS,
    ) -> None:
        for name, value, low, high in (
            ("players", players, 5, 10),
            ("days", days, 2, 5),
            ("talks", talks, 0, 2),
            ("message_chars", message_chars, 20, 160),
        ):
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(
                    f"werewolf: {name}={value!r}; give a number from {low} to {high}."
                )
        self.seats, self.days, self.talks = players, days, talks
        self.message_chars = message_chars
        self.max_turns = days * (players * talks + 2)
        few = [WEREWOLF] * werewolves(players) + [SEER, DOCTOR]
        self._deal = (*few, *[VILLAGER] * (players - len(few)))
        self._rules = _rules(players, days, talks, message_chars)

    def new(self, streams: Streams) -> Village:
        """Deal the roles, and the luck of every night."""
        draws = streams.draws("instance")

        def dealt() -> tuple[int, ...]:
            return tuple(self._deal[place] for place in draws.permutation(self.seats))

        roles = streams.held(dealt, lambda roles: roles)
        first = streams.draws("seats").integers(self.seats)
        return Village(roles, first, self._luck(streams.draws("chance"), self.days))

    def _luck(self, draws: Draws, nights: int) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(draws.permutation(self.seats)) for _ in range(nights))

    def _over(self, state: Village) -> bool:
        wolves = len(wolves_in(state))
        return not wolves or 2 * wolves >= len(living(state)) or len(state.votes) == self.days

    def to_move(self, state: Village) -> tuple[int, ...]:
        """By night those with a part in it; by day the next speaker, then all who are in."""
        if self._over(state):
            return ()
        if is_night(state):
            awake = (WEREWOLF, SEER, DOCTOR) if state.nights else (SEER,)
            return tuple(seat for seat in living(state) if state.roles[seat] in awake)
        said = self._said_today(state)
        order = speakers(state)
        if said < self.talks * len(order):
            return (order[said % len(order)],)
        return tuple(living(state))

    def _said_today(self, state: Village) -> int:
        return sum(day == len(state.votes) for day, _, _ in state.said)

    def _talking(self, state: Village) -> bool:
        if is_night(state):
            return False
        return self._said_today(state) < self.talks * len(living(state))

    def observe(self, state: Village, seat: int) -> str:
        """Rules, role, what the seat learnt by night, what all know, and what is due."""
        role = state.roles[seat]
        lines = [f"{self._rules}\nYou are {seat_name(seat)}. Your role: {ROLES[role]}."]
        if role == WEREWOLF:
            others = [s for s, r in enumerate(state.roles) if r == WEREWOLF and s != seat]
            if others:
                lines.append(f"Werewolves beside you: {_names(others)}.")
        if self.talks:
            lines.append(
                f"{seat_name(state.first)} speaks first on day 1, the next player on day 2."
            )
        for number, named in enumerate(state.nights, 1):
            if learnt := _learnt(state, seat, named):
                lines.append(f"Night {number}, only for you: {learnt}.")
        return "\n".join(lines) + f"\n{state.log}{self._status(state, seat)}\n"

    def _status(self, state: Village, seat: int) -> str:
        if self._over(state):
            won = "werewolves win" if wolves_in(state) else "village wins"
            roles = ", ".join(f"{seat_name(s)} {ROLES[r]}" for s, r in enumerate(state.roles))
            return f"THE END. The {won}. Roles: {roles}."
        if seat not in living(state):
            return "You are out; wait for the end."
        day = len(state.votes) + 1
        on_move = self.to_move(state)
        if is_night(state):
            if seat not in on_move:
                return f"NIGHT {day}. You sleep; wait."
            return f"NIGHT {day}. {_TASKS[state.roles[seat]]} {_names(self._choices(state, seat))}."
        if seat not in on_move:
            return f"DAY {day}. Wait for {seat_name(on_move[0])}, who speaks."
        if self._talking(state):
            return f"DAY {day}. Speak to all."
        return f"DAY {day}. Vote for one of {_names(self._choices(state, seat))}."

    def _choices(self, state: Village, seat: int) -> list[int]:
        """Whom a seat may name now."""
        inside = living(state)
        if not is_night(state):
            return [other for other in inside if other != seat]
        role = state.roles[seat]
        if role == WEREWOLF:
            return [other for other in inside if state.roles[other] != WEREWOLF]
        if role == DOCTOR:
            last = state.nights[-1][seat] if state.nights else NO_SEAT
            return [other for other in inside if other != last]
        return [other for other in inside if other != seat]

    def parse(self, state: Village, seat: int, body: str) -> Move:
        """A cleaned message, or the seat that is named."""
        if self._talking(state):
            message = clean_message(body, self.message_chars)
            require_action(bool(message), f"the message is empty; to say nothing write {SILENCE}")
            return message
        choices = self._choices(state, seat)
        named = _NAMED.fullmatch(" ".join(body.lower().split()))
        choice = int(named.group(1)) if named else NO_SEAT
        require_action(choice in choices, f"name one of {_names(choices)}")
        return choice

    def apply(self, state: Village, actions: Mapping[int, Move]) -> Village:
        """Note a message; end the night or the day where it ends."""
        if self._talking(state):
            ((seat, words),) = actions.items()
            day = len(state.votes)
            line = f"Day {day + 1}, {seat_name(seat)}: {quoted(str(words))}\n"
            return state._replace(said=(*state.said, (day, seat, str(words))), log=state.log + line)
        named = tuple(int(actions.get(seat, NO_SEAT)) for seat in range(self.seats))
        return _morning(state, named) if is_night(state) else _evening(state, named)

    def returns(self, state: Village) -> tuple[float, ...] | None:
        """See `payoffs`."""
        return payoffs(state) if self._over(state) else None

    def legal(self, state: Village, seat: int) -> Sequence[str] | None:
        """The seats that may be named; messages are too many to list."""
        return None if self._talking(state) else [*map(seat_name, self._choices(state, seat))]

    def fallback(self, state: Village, seat: int) -> str:
        """Silence; the next seat that may be named."""
        if self._talking(state):
            return SILENCE
        choices = self._choices(state, seat)
        return seat_name(min(choices, key=lambda other: (other - seat - 1) % self.seats))

    def sample(self, state: Village, seat: int, rng: np.random.Generator) -> str:
        """A few words that mean nothing; any seat."""
        names = self.legal(state, seat)
        return random_words(rng) if names is None else names[int(rng.integers(len(names)))]

    def components(self, state: Village, seat: int) -> Mapping[str, float]:
        """``werewolf``, ``won``, ``out``: 1 or 0; ``votes_right``: votes that named a werewolf."""
        wolf = state.roles[seat] == WEREWOLF
        right = [vote[seat] for vote in state.votes if vote[seat] != NO_SEAT]
        won = self._over(state) and wolf == bool(wolves_in(state))
        return {
            "werewolf": float(wolf),
            "won": float(won),
            "out": float(seat not in living(state)),
            "votes_right": float(sum(state.roles[named] == WEREWOLF for named in right)),
        }

    def swap_hidden(self, state: Village, seat: int, other: Village) -> Village:
        """Roles that the seat does not know, as many of each as before, and what others named by night."""
        if self._over(state):
            return state
        known = known_roles(state, seat)
        unknown = [s for s in range(self.seats) if s not in known]
        left, roles = [state.roles[s] for s in unknown], list(state.roles)
        taken = [s for s in unknown if _took(left, other.roles[s])]
        for s in unknown:
            roles[s] = other.roles[s] if s in taken else left.pop()
        shared = {seat, *known} if state.roles[seat] == WEREWOLF else {seat}
        nights = tuple(
            tuple(to if s in shared else NO_SEAT for s, to in enumerate(named))
            for named in state.nights
        )
        return state._replace(roles=tuple(roles), luck=other.luck, nights=nights)

    def reshuffled(self, state: Village, draws: Draws) -> Village:
        """The luck of nights to come."""
        past = len(state.nights)
        return state._replace(luck=(*state.luck[:past], *self._luck(draws, self.days - past)))

    def encode(self, state: Village) -> Any:
        """The fields in order, as lists."""
        return [_listed(value) for value in state]

    def decode(self, data: Any) -> Village:
        """The inverse of `encode`."""
        return Village(*map(_frozen, data))


def known_roles(state: Village, seat: int) -> set[int]:
    """Seats whose role a seat can see: its own, those that left, fellow werewolves, and whom it looked at."""
    known = {seat, *state.out, *state.killed} - {NO_SEAT}
    role = state.roles[seat]
    if role == WEREWOLF:
        known |= {other for other, r in enumerate(state.roles) if r == WEREWOLF}
    if role == SEER:
        known |= {named[seat] for named in state.nights} - {NO_SEAT}
    return known


def _took(left: list[int], role: int) -> bool:
    """Take one card of a role from those that are left; False where there is none."""
    if role not in left:
        return False
    left.remove(role)
    return True


def _morning(state: Village, named: tuple[int, ...]) -> Village:
    """The day after a night in which the seats named these."""
    night, killed = len(state.nights), NO_SEAT
    if night:
        killed = victim([named[wolf] for wolf in wolves_in(state)], state.luck[night])
    protected = [named[s] for s in living(state) if state.roles[s] == DOCTOR]
    if killed in (NO_SEAT, *protected):
        killed = NO_SEAT
        line = "no player was killed"
    else:
        line = f"{seat_name(killed)} was killed and was a {ROLES[state.roles[killed]]}"
    return state._replace(
        nights=(*state.nights, named),
        killed=(*state.killed, killed),
        log=f"{state.log}Night {night + 1}: {line}.\n",
    )


def _evening(state: Village, votes: tuple[int, ...]) -> Village:
    """The night after a vote."""
    gone = voted_out(votes)
    cast = ", ".join(
        f"{seat_name(s)} for {seat_name(to)}" for s, to in enumerate(votes) if to != NO_SEAT
    )
    if gone == NO_SEAT:
        line = "A tie: no player is out"
    else:
        line = f"{seat_name(gone)} is out and was a {ROLES[state.roles[gone]]}"
    return state._replace(
        votes=(*state.votes, votes),
        out=(*state.out, gone),
        log=f"{state.log}Day {len(state.votes) + 1}, vote: {cast}. {line}.\n",
    )


def _learnt(state: Village, seat: int, named: Sequence[int]) -> str:
    """What only a seat, or only werewolves, learn of a night."""
    to, role = named[seat], state.roles[seat]
    if to == NO_SEAT:
        return ""
    if role == SEER:
        is_wolf = "is" if state.roles[to] == WEREWOLF else "is not"
        return f"{seat_name(to)} {is_wolf} a werewolf"
    if role == DOCTOR:
        return f"you protected {seat_name(to)}"
    return ", ".join(
        f"{'you' if s == seat else seat_name(s)} named {seat_name(other)}"
        for s, other in enumerate(named)
        if state.roles[s] == WEREWOLF and other != NO_SEAT
    )


_TASKS = {
    WEREWOLF: "Name whom the werewolves kill, one of",
    SEER: "Name whom you look at, one of",
    DOCTOR: "Name whom you protect, one of",
}


def _rules(players: int, days: int, talks: int, message_chars: int) -> str:
    wolves = werewolves(players)
    several = "one is a werewolf" if wolves == 1 else f"{wolves} are werewolves"
    differ = "" if wolves == 1 else " (if they differ, most names count, then chance decides)"
    speak = {0: "", 1: "speak in turn, then ", 2: "speak in turn, twice, then "}[talks]
    forms = f"Reply with a player where one is due, like this: <action>{seat_name(3)}</action>"
    if talks:
        forms = (
            f"Where you speak, reply with a message of at most {message_chars} characters, like this: "
            f"<action>I trust player_2. I vote for player_4.</action>\n{forms}"
        )
    return (
        f"WEREWOLF. Of {players} players {several}, one is a seer, one a doctor, the others are "
        "villagers. Roles are secret; werewolves know each other. All others are the village.\n"
        f"Each night the werewolves name whom to kill{differ}, the seer learns of one player whether it is "
        "a werewolf, and the doctor protects one player, also itself, but not the same twice in a row; "
        "who is protected is not killed. In the first night only the seer acts. Each day all who are in "
        f"{speak}vote at the same time; who gets most votes is out, a tie removes no player. The role of a "
        "player who leaves is shown.\n"
        "The village wins when no werewolf is left. The werewolves win when they are as many as the "
        f"others, or after the vote of day {days}.\n"
        f"Payoff: {SIDE_PAY} if your side wins, else -{SIDE_PAY}. In the village, plus {OWN_PAY} * (2 * "
        "share of your votes that named a werewolf - 1) if you voted. As a werewolf, "
        f"plus {OWN_PAY}, or -{OWN_PAY} if you are voted out.\n{forms}\n"
    )


def random_words(rng: np.random.Generator) -> str:
    """A few words that mean nothing."""
    return " ".join(str(word) for word in rng.choice(_CHATTER, int(rng.integers(1, 8))))


def _names(seats: Sequence[int]) -> str:
    return ", ".join(map(seat_name, seats))


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
