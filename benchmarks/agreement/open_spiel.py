"""Agreement with OpenSpiel, move for move: legal actions, who is on move, and what is paid.

    python -m benchmarks.agreement.open_spiel [--playouts 1000] [--games nim ...] [--json FILE]

Each playout is one random episode of ours; OpenSpiel's game follows it, with its chance outcomes
set to our deal. Before every move the player on move and the whole set of legal actions must be the
same, and where OpenSpiel's game ends, ours must too and pay the same. Where the rules differ on
purpose, only a part is compared, which `Comparison.part` describes. Ends with code 1 where
anything differs.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from srl_envs.core import Game, Streams, episode_entropy
from srl_envs.families.board.connect_four import ConnectFour
from srl_envs.families.board.nim import Nim
from srl_envs.families.cards.hanabi_mini import COLOURS, NAMES, HanabiMini, Show
from srl_envs.families.cards.kuhn_poker import DECKS, KuhnPoker
from srl_envs.families.cards.liars_dice import CALL, LiarsDice

RESULTS = Path(__file__).parents[1] / "results" / "open_spiel.json"


class DisagreementError(Exception):
    """The two implementations differ; the message has the place."""


@dataclass(frozen=True, kw_only=True)
class Twin:
    """One game of OpenSpiel, and the stretch of one of our episodes that must equal it."""

    theirs: Any
    """A ``pyspiel.State``, moved along."""
    seats: Sequence[int]
    """Our seat of each of its players."""
    action: Callable[[int, str], str]
    """Its name for an action: (player, our action body) -> text."""
    over: Callable[[Any], bool]
    """Whether the stretch has ended in this state of ours."""
    paid: Callable[[Any], Sequence[float]]
    """What its players are owed by then, in its units."""
    chance: Iterator[int] = field(default_factory=lambda: iter(()))
    """Its chance outcomes, as its action numbers."""
    table: Callable[[Any], str] = lambda _: ""
    """Our state as `their_table` shows it; compared before each move."""
    their_table: Callable[[str], str] = lambda _: ""
    """What of its text shows the table."""


Pick = Callable[[Any, int, np.random.Generator], str]
"""Draws a legal action body: (state, seat, generator) -> body."""


def follow(
    game: Game[Any, Any],
    state: Any,
    twin: Twin,
    rng: np.random.Generator,
    pick: Pick | None = None,
) -> tuple[Any, int]:
    """Play at random to the end of the stretch, in both.

    Args:
        game: ours.
        state: ours, at the start of the stretch.
        twin: OpenSpiel's.
        rng: draws the moves.
        pick: how; `Game.sample` by default.

    Returns:
        Our last state, and the number of moves.

    Raises:
        DisagreementError: at the first difference.
    """
    theirs, moves = twin.theirs, 0
    while True:
        while theirs.is_chance_node():
            theirs.apply_action(next(twin.chance))
        where = f"after {theirs.history_str()!r}"
        over = twin.over(state)
        _require(where, "over", over, theirs.is_terminal())
        if over:
            _require(where, "paid", [*map(float, twin.paid(state))], theirs.returns())
            return state, moves
        (seat,) = game.to_move(state)
        player = theirs.current_player()
        _require(where, "on move", seat, twin.seats[player])
        bodies = {twin.action(player, body): body for body in game.legal(state, seat) or ()}
        numbers = {theirs.action_to_string(player, n): n for n in theirs.legal_actions()}
        _require(where, "legal actions", sorted(bodies), sorted(numbers))
        _require(where, "table", twin.table(state), twin.their_table(str(theirs)))
        body = (pick or game.sample)(state, seat, rng)
        theirs.apply_action(numbers[twin.action(player, body)])
        state = game.apply(state, {seat: game.parse(state, seat, body)})
        moves += 1


def _require(where: str, what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        raise DisagreementError(f"{where}: {what}: ours {ours}, OpenSpiel's {theirs}")


def load(name: str, **parameters: Any) -> Any:
    """OpenSpiel's first state of a game."""
    import pyspiel

    return pyspiel.load_game(name, parameters).new_initial_state()


def start(game: Game[Any, Any], name: str, seed: int) -> tuple[Any, np.random.Generator]:
    """Our first state, as `srl_envs.make` would start it, and a generator for the moves."""
    state = game.new(Streams(*episode_entropy(name, 0, "train", seed)))
    return state, np.random.default_rng(seed)


Counts = tuple[int, int]
"""Games of OpenSpiel that were followed, moves in them."""


def connect_four(seed: int) -> Counts:
    """Board sizes and lengths of the line in turn; the whole board is compared before each move."""
    rows, cols, k = [(6, 7, 4), (5, 4, 3), (4, 6, 4), (9, 9, 5)][seed % 4]
    game = ConnectFour(rows=rows, cols=cols, k=k)
    state, rng = start(game, "connect_four", seed)
    first = state.mover
    twin = Twin(
        theirs=load("connect_four", rows=rows, columns=cols, x_in_row=k),
        seats=(first, 1 - first),
        action=lambda player, body: f"{'xo'[player]}{int(body) - 1}",
        over=lambda ours: not game.to_move(ours),
        paid=lambda ours: _by_player(game.returns(ours), (first, 1 - first)),
        table=lambda ours: ours.boards[first].lower(),
        their_table=lambda text: text,
    )
    return 1, follow(game, state, twin, rng)[1]


def nim(seed: int) -> Counts:
    """Normal and misere play in turn, on our instances."""
    misere = bool(seed % 2)
    game = Nim(misere=misere)
    state, rng = start(game, "nim", seed)
    first = state.mover

    def action(_player: int, body: str) -> str:
        heap, count = body.split(" ")
        return f"pile:{heap}, take:{count};"

    twin = Twin(
        theirs=load("nim", pile_sizes=";".join(map(str, state.heaps)), is_misere=misere),
        seats=(first, 1 - first),
        action=action,
        over=lambda ours: not game.to_move(ours),
        paid=lambda ours: _by_player(game.returns(ours), (first, 1 - first)),
        table=lambda ours: " ".join(map(str, ours.heaps)),
        their_table=lambda text: text.partition(": ")[2],
    )
    return 1, follow(game, state, twin, rng)[1]


def kuhn(seed: int) -> Counts:
    """Every hand of an episode is one game of OpenSpiel."""
    words = {"check": "Pass", "fold": "Pass", "bet": "Bet", "call": "Bet"}
    return _poker("kuhn", "kuhn_poker", words, seed)


def leduc(seed: int) -> Counts:
    """Every hand of an episode is one game of OpenSpiel."""
    words = {"check": "Call", "call": "Call", "bet": "Raise", "raise": "Raise", "fold": "Fold"}
    return _poker("leduc", "leduc_poker", words, seed)


def _poker(deck: str, name: str, words: dict[str, str], seed: int) -> Counts:
    game = KuhnPoker(deck=deck)
    state, rng = start(game, "kuhn_poker", seed)
    moves = 0
    while game.to_move(state):
        hand, before, first = state.hand, state.net, state.mover
        deal = state.deals[hand]
        seats = (first, 1 - first)

        def over(ours: Any, hand: int = hand) -> bool:
            return bool(ours.hand > hand)

        def paid(ours: Any, before: int = before, seats: Sequence[int] = seats) -> Sequence[float]:
            won = ours.net - before
            return _by_player((won, -won), seats)

        twin = Twin(
            theirs=load(name),
            seats=seats,
            action=lambda _player, body: words[body],
            over=over,
            paid=paid,
            chance=_numbered([deal[first], deal[1 - first], *deal[2:]], DECKS[deck].cards),
        )
        state, made = follow(game, state, twin, rng)
        moves += made
    return game.hands, moves


def _numbered(dealt: Iterable[str], cards: str) -> Iterator[int]:
    """Numbers of the dealt cards in the ordered deck; two of a rank keep their order."""
    free = list(enumerate(cards))
    for rank in dealt:
        card = next(card for card in free if card[1] == rank)
        free.remove(card)
        yield card[0]


def _liars_dice(seed: int, *, wild: bool) -> Counts:
    """Rounds that are a whole game of OpenSpiel; the others are played, but not compared."""
    game = LiarsDice(players=2, dice=3, wild=wild)
    game.max_turns = 1000  # OpenSpiel does not count turns
    state, rng = start(game, "liars_dice", seed)
    games = moves = 0
    while game.to_move(state):
        number, first, dice = state.round, state.mover, state.dice

        def over(ours: Any, number: int = number) -> bool:
            return bool(ours.round > number)

        cups = [state.rolls[number][seat][: dice[seat]] for seat in (first, 1 - first)]
        if dice[0] != dice[1] or (not wild and "6" in "".join(cups)):
            while not over(state):
                bid = game.parse(state, state.mover, game.sample(state, state.mover, rng))
                state = game.apply(state, {state.mover: bid})
            continue

        def paid(ours: Any, dice: Sequence[int] = dice, first: int = first) -> Sequence[float]:
            lost = ours.dice[0] < dice[0]
            return _by_player((-1, 1) if lost else (1, -1), (first, 1 - first))

        twin = Twin(
            theirs=load("liars_dice", numdice=dice[0]),
            seats=(first, 1 - first),
            action=lambda _player, body: "Liar" if body == CALL else body.replace(" ", "-"),
            over=over,
            paid=paid,
            chance=(int(face) - 1 for cup in cups for face in cup),
        )
        # our sample keeps bids low, any legal bid soon reaches the highest: each in turn
        state, made = follow(game, state, twin, rng, _any_legal(game) if seed % 2 else None)
        games, moves = games + 1, moves + made
    return games, moves


def _any_legal(game: LiarsDice) -> Pick:
    def pick(state: Any, seat: int, rng: np.random.Generator) -> str:
        bodies = game.legal(state, seat)
        return bodies[int(rng.integers(len(bodies)))]

    return pick


def hanabi(seed: int) -> Counts:
    """Two, three and four seats in turn; the table and all that clues imply are compared too.

    Random players soon lose their lives, so every other team only plays cards that fit.
    """
    game = HanabiMini(players=2 + seed % 3)
    state, rng = start(game, "hanabi_mini", seed)
    order = [(state.mover + player) % game.seats for player in range(game.seats)]
    cards = [card for seat in order for card in state.hands[seat]] + list(state.deck)
    ranks = game.points // len(game.colours)

    def action(player: int, body: str) -> str:
        kind, *rest = body.split(" ")
        if kind != "clue":
            return f"({kind.title()} {int(rest[0]) - 1})"
        step = (order.index(NAMES.index(rest[0])) - player) % game.seats
        word = rest[1]
        what = f"rank {word}" if word.isdigit() else f"color {word[0].upper()}"
        return f"(Reveal player +{step} {what})"

    twin = Twin(
        theirs=load(
            "hanabi", players=game.seats, colors=len(game.colours), ranks=ranks, hand_size=game.hand,
            max_information_tokens=game.clues, max_life_tokens=game.lives,
        ),
        seats=order,
        action=action,
        over=lambda ours: not game.to_move(ours),
        paid=lambda ours: [sum(ours.piles) if ours.lives else 0.0] * game.seats,
        chance=(ranks * game.colours.index(c[0]) + int(c[1]) - 1 for c in cards),
        table=lambda ours: _hanabi_table(ours, order),
        their_table=_their_hanabi_table,
    )  # fmt: skip

    def careful(ours: Show, seat: int, rng: np.random.Generator) -> str:
        fits = [
            f"play {i}"
            for i, card in enumerate(ours.hands[seat], 1)
            if int(card[1]) == ours.piles[game.colours.index(card[0])] + 1
        ]
        others = [body for body in game.legal(ours, seat) if not body.startswith("play")]
        bodies = fits if fits and (not others or rng.random() < 0.7) else others
        return bodies[int(rng.integers(len(bodies)))] if bodies else "play 1"

    return 1, follow(game, state, twin, rng, careful if seed % 2 else None)[1]


def _hanabi_table(ours: Show, order: Sequence[int]) -> str:
    piles = " ".join(f"{c}{n}" for c, n in zip(COLOURS, ours.piles, strict=True))
    hands = [
        " ".join(
            f"{card}|{marks}" for card, marks in zip(ours.hands[s], ours.known[s], strict=True)
        )
        for s in order
    ]
    gone = " ".join(ours.discards)
    head = f"{ours.lives} {ours.clues} {len(ours.deck)}"
    return "\n".join([head, piles, *hands, gone])


def _their_hanabi_table(text: str) -> str:
    def after(name: str) -> str:
        return text.partition(f"{name}: ")[2].partition("\n")[0].strip()

    hands = text.partition("Hands:\n")[2].partition("Deck size")[0].split("-----\n")
    shown = [
        " ".join(f"{c}|{m}" for c, m in re.findall(r"(\w\d) \|\| ..\|(\w+)", h)) for h in hands
    ]
    head = f"{after('Life tokens')} {after('Info tokens')} {after('Deck size')}"
    return "\n".join([head, after("Fireworks"), *shown, after("Discards")])


def _by_player(by_seat: Sequence[float] | None, seats: Sequence[int]) -> list[float]:
    return [(by_seat or ())[seat] for seat in seats]


@dataclass(frozen=True)
class Comparison:
    """One of our environments against one game of OpenSpiel."""

    env_id: str
    theirs: str
    """Short name of OpenSpiel's game."""
    playout: Callable[[int], Counts]
    """Follows the episode of a seed."""
    part: str
    """What is compared, and what differs on purpose."""


COMPARISONS = {
    "connect_four": Comparison(
        "connect_four-v0", "connect_four", connect_four, "Everything, on four sizes of board."
    ),
    "nim": Comparison("nim-v0", "nim", nim, "Everything, normal and misere."),
    "kuhn": Comparison(
        "kuhn_poker-v0", "kuhn_poker", kuhn,
        "Each hand, in chips. An episode of ours has six hands, whose sum is divided by the most that "
        "could be lost.",
    ),
    "leduc": Comparison(
        "kuhn_poker-v0", "leduc_poker", leduc, "Option deck=leduc. Each hand, in chips; as in kuhn."
    ),
    "liars_dice_wild": Comparison(
        "liars_dice-v0", "liars_dice", lambda seed: _liars_dice(seed, wild=True),
        "Options players=2, wild=true. Each round in which both seats hold as many dice (3, 2 or 1): "
        "every bid and the call. There OpenSpiel ends; ours takes a die from the loser, rolls again "
        "and goes on, also with unequal dice. Our limit on turns is lifted.",
    ),
    "liars_dice": Comparison(
        "liars_dice-v0", "liars_dice", lambda seed: _liars_dice(seed, wild=False),
        "Option players=2, no face wild, as is our default. OpenSpiel's sixes are always wild, so only "
        "rounds in which nobody rolled one; else as above.",
    ),
    "hanabi": Comparison(
        "hanabi_mini-v0", "hanabi", hanabi,
        "With 2, 3 and 4 seats, to the last move; before each the whole table, and what the clues "
        "imply about each card. OpenSpiel pays the points, and 0 where all lives are lost; ours "
        "divides by the maximum, and halves them there.",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What the playouts of one game came to."""

    playouts: int
    games: int
    """Games of OpenSpiel that were followed to the end."""
    moves: int
    disagreements: int
    """Playouts in which something differed."""
    first: str
    """The first difference; "" where there is none."""


def compare(name: str, playouts: int) -> Agreement:
    """Follow ``playouts`` random episodes, with seeds from 0."""
    games = moves = 0
    differences = []
    for seed in range(playouts):
        try:
            counts = COMPARISONS[name].playout(seed)
        except DisagreementError as error:
            differences.append(f"seed {seed}: {error}")
        else:
            games, moves = games + counts[0], moves + counts[1]
    return Agreement(
        playouts=playouts,
        games=games,
        moves=moves,
        disagreements=len(differences),
        first=differences[0] if differences else "",
    )


def main() -> int:
    """Print a table, write the results; 1 where anything differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--playouts", type=int, default=1000, help="random episodes of each game")
    parser.add_argument("--games", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    parser.add_argument("--json", default=str(RESULTS), help="where the numbers go")
    options = parser.parse_args()
    if options.playouts < 1:
        parser.error(f"--playouts {options.playouts}: play 1 or more.")
    try:
        version = metadata.version("open-spiel")
    except metadata.PackageNotFoundError:
        parser.error("OpenSpiel is not installed: pip install open-spiel.")
    results: dict[str, dict[str, Any]] = {}
    print(f"OpenSpiel {version}; {options.playouts} random playouts each, seeds from 0")
    print(f"{'':17}{'games':>8}{'moves':>9}{'differing playouts':>20}")
    for name in options.games:
        comparison, found = COMPARISONS[name], compare(name, options.playouts)
        results[name] = {
            "environment": comparison.env_id, "theirs": comparison.theirs, **asdict(found),
            "compared": comparison.part,
        }  # fmt: skip
        print(f"{name:17}{found.games:8}{found.moves:9}{found.disagreements:20}", flush=True)
        if found.first:
            print(f"    {found.first}")
    print("\nWhat is compared:")
    for name in options.games:
        print(textwrap.fill(f"{name}: {COMPARISONS[name].part}", 100, subsequent_indent="    "))
    data = {
        "command": f"python -m benchmarks.agreement.open_spiel --playouts {options.playouts}",
        "open_spiel": version,
        "python": platform.python_version(),
        "games": results,
    }
    Path(options.json).write_text(json.dumps(data, indent=2) + "\n")
    return int(any(result["disagreements"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
