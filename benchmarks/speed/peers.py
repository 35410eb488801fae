"""Games of other packages that SRL has, too, played from moves drawn before the clock starts.

An episode is a callable that plays game number n and returns its steps; a step is one move of one seat.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Episode = Callable[[int], int]
Choose = Callable[[Any, int | None, int], int | str]
"""(OpenSpiel's state, seat or None for chance, moves so far) -> the move's number or text."""
GAMES = 200
"""Different games of each contestant."""


def _any_column(env: Any) -> str:
    board = env.state.game_state["board"]
    return f"[col {random.choice([c for c, top in enumerate(board[0]) if top == '.'])}]"


def _any_heap(env: Any) -> str:
    heaps = [(i, n) for i, n in enumerate(env.state.game_state["piles"]) if n]
    heap, left = random.choice(heaps)
    return f"[{heap} {random.randint(1, left)}]"


def _any_spread(_: Any) -> str:
    first, second = sorted(random.sample(range(1, 20), 2))
    return f"[A{first} B{second - first} C{20 - second}]"


def _any_word(env: Any) -> str:
    return f"[{random.choice(list(env.state.game_state['current_legal_action_tree']))}]"


class Theirs(NamedTuple):
    """A game of TextArena for two."""

    name: str
    reply: Callable[[Any], str]
    """A random legal reply."""
    replies: int = 1
    """That a seat is asked for in one move."""


TEXTARENA = {
    "connect_four-v0": Theirs("ConnectFour-v0", _any_column),
    "kuhn_poker-v0": Theirs("KuhnPoker-v0", _any_word),
    "nim-v0": Theirs("Nim-v0", _any_heap),
    "iterated_dilemma-v0": Theirs(  # talk and the move in turn; ours takes both in one reply
        "IteratedPrisonersDilemma-v0",
        lambda _: random.choice(("[cooperate]", "[defect]")),
        replies=2,
    ),
    "blotto-v0": Theirs("ColonelBlotto-v0", _any_spread),
}

OPEN_SPIEL = {
    "connect_four-v0": "connect_four",
    "kuhn_poker-v0": "kuhn_poker",
    "nim-v0": "nim",
    "liars_dice-v0": "liars_dice(numdice=3)",
    "hanabi_mini-v0": "hanabi(players=2,colors=3,ranks=4,hand_size=4,max_information_tokens=6)",
    "blotto-v0": "blotto(coins=10,fields=3)",
}


def textarena(game: Theirs, *, raw: bool = False) -> Episode:
    """A fresh environment per game, as a used one leaks earlier games into its prompts.

    Args:
        game: what is played.
        raw: without the wrapper that makes one text of the messages.

    Raises:
        ImportError: the package is not installed.
    """
    import textarena as ta

    env_id = f"{game.name}-raw" if raw else game.name

    def play(seed: int, choose: Callable[[Any, int], str]) -> list[str]:
        env: Any = ta.make(env_id)
        env.reset(num_players=2, seed=seed)
        inner, done = env, False
        replies: list[str] = []
        while hasattr(inner, "env"):
            inner = inner.env
        while not done:
            env.get_observation()
            replies.append(choose(inner, len(replies)))
            done, _ = env.step(replies[-1])
        return replies

    recorded = [play(seed, lambda env, _: game.reply(env)) for seed in range(GAMES)]

    def episode(number: int) -> int:
        replies = recorded[number % GAMES]
        if len(play(number % GAMES, lambda _, turn: replies[turn])) != len(replies):
            raise RuntimeError(
                f"{env_id}: game {number % GAMES} went another way when played again"
            )
        return len(replies) // game.replies

    return episode


def open_spiel(name: str, *, drawn_in_play: bool = False) -> Episode:
    """Text and legal actions of every seat on move, and the rewards after every move.

    Args:
        name: of the game, with its parameters.
        drawn_in_play: draw the moves with numpy while the clock runs and play them by number, as
            short scripts do. Otherwise a reply is a text, in which OpenSpiel finds the action.

    Raises:
        ImportError: the package is not installed.
    """
    import pyspiel

    game = pyspiel.load_game(name)
    seats = range(game.num_players())
    has_observations = game.get_type().provides_observation_string

    def play(choose: Choose) -> list[int | str]:
        state, made = game.new_initial_state(), list[int | str]()
        while not state.is_terminal():
            if state.is_chance_node():
                made.append(choose(state, None, len(made)))
                state.apply_action(made[-1])
                continue
            joint = []
            for seat in seats if state.is_simultaneous_node() else (state.current_player(),):
                _ = state.observation_string(seat) if has_observations else str(state)
                move = choose(state, seat, len(made))
                joint.append(state.string_to_action(seat, move) if type(move) is str else move)
                made.append(move)
                steps[0] += 1
            if state.is_simultaneous_node():
                state.apply_actions(joint)
            else:
                state.apply_action(joint[0])
            state.rewards()
        return made

    def drawn(seed: int) -> Choose:
        rng = np.random.default_rng(seed)

        def draw(state: Any, seat: int | None, _: int) -> int:
            if seat is not None:
                return int(rng.choice(state.legal_actions(seat)))
            actions, weights = zip(*state.chance_outcomes(), strict=True)
            return int(rng.choice(actions, p=weights))

        return draw

    def spelled(seed: int) -> Choose:
        draw = drawn(seed)

        def spell(state: Any, seat: int | None, turn: int) -> int | str:
            number = draw(state, seat, turn)
            return number if seat is None else str(state.action_to_string(seat, number))

        return spell

    def again(moves: list[int | str]) -> Choose:
        def repeat(state: Any, seat: int | None, turn: int) -> int | str:
            if seat is not None:
                state.legal_actions(seat)
            return moves[turn]

        return repeat

    steps = [0]
    recorded = [play(spelled(seed)) for seed in range(GAMES)]

    def episode(number: int) -> int:
        steps[0] = 0
        play(drawn(number) if drawn_in_play else again(recorded[number % GAMES]))
        return steps[0]

    return episode
