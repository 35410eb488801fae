"""Games of other packages that SRL has, too, played from moves drawn before the clock starts.

An episode is a callable that plays game number n and returns its steps; a step is one reply, or one
action, of one seat.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Episode = Callable[[int], int]
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


TEXTARENA: dict[str, tuple[str, Callable[[Any], str]]] = {
    "connect_four-v0": ("ConnectFour-v0", _any_column),
    "kuhn_poker-v0": ("KuhnPoker-v0", _any_word),
    "nim-v0": ("Nim-v0", _any_heap),
    "iterated_dilemma-v0": (
        "IteratedPrisonersDilemma-v0", lambda env: random.choice(("[cooperate]", "[defect]")),
    ),
    "blotto-v0": ("ColonelBlotto-v0", _any_spread),
}  # fmt: skip
"""Game of ours -> theirs, for two, and a random legal reply."""

OPEN_SPIEL = {
    "connect_four-v0": "connect_four",
    "kuhn_poker-v0": "kuhn_poker",
    "nim-v0": "nim",
    "liars_dice-v0": "liars_dice(numdice=3)",
    "hanabi_mini-v0": "hanabi(players=2,colors=3,ranks=4,hand_size=4,max_information_tokens=6)",
    "blotto-v0": "blotto(coins=10,fields=3)",
}


def textarena(env_id: str, reply: Callable[[Any], str]) -> Episode:
    """A fresh environment per game, as a used one leaks earlier games into its prompts.

    Raises:
        ImportError: the package is not installed.
    """
    import textarena as ta

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

    recorded = [play(seed, lambda env, _: reply(env)) for seed in range(GAMES)]

    def episode(number: int) -> int:
        game = recorded[number % GAMES]
        steps = len(play(number % GAMES, lambda _, turn: game[turn]))
        if steps != len(game):
            raise RuntimeError(
                f"{env_id}: game {number % GAMES} went another way when played again"
            )
        return steps

    return episode


def open_spiel(name: str, *, drawn_in_play: bool = False) -> Episode:
    """Text and legal actions of every seat on move, and the rewards after every move.

    Args:
        name: of the game, with its parameters.
        drawn_in_play: draw the moves with numpy while the clock runs, as short scripts do. It takes
            most of the time.

    Raises:
        ImportError: the package is not installed.
    """
    import pyspiel

    game = pyspiel.load_game(name)
    seats = range(game.num_players())
    told = game.get_type().provides_observation_string

    def play(choose: Callable[[Any, Sequence[int], int], int]) -> list[int]:
        state, moves = game.new_initial_state(), list[int]()
        while not state.is_terminal():
            if state.is_chance_node():
                actions, weights = zip(*state.chance_outcomes(), strict=True)
                moves.append(choose(weights, actions, len(moves)))
                state.apply_action(moves[-1])
                continue
            joint = []
            for seat in seats if state.is_simultaneous_node() else (state.current_player(),):
                _ = state.observation_string(seat) if told else str(state)
                joint.append(choose(None, state.legal_actions(seat), len(moves)))
                moves.append(joint[-1])
                steps[0] += 1
            if state.is_simultaneous_node():
                state.apply_actions(joint)
            else:
                state.apply_action(joint[0])
            state.rewards()
        return moves

    def drawn(seed: int) -> Callable[[Any, Sequence[int], int], int]:
        rng = np.random.default_rng(seed)
        return lambda weights, actions, _: int(rng.choice(actions, p=weights))

    steps = [0]
    recorded = [play(drawn(seed)) for seed in range(GAMES)]

    def episode(number: int) -> int:
        steps[0] = 0
        moves = recorded[number % GAMES]
        play(drawn(number) if drawn_in_play else lambda _, __, turn: moves[turn])
        return steps[0]

    return episode
