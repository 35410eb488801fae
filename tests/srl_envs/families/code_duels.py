"""Duels of two programs, played move by move in this process."""

import json
from typing import Any

from srl_envs.core import Streams
from srl_envs.families.coding.code_duel import (
    CodeDuel,
    CodeDuelState,
)
from srl_envs.families.coding.held_out import EVAL_FAMILIES
from srl_envs.families.coding.problems import FAMILIES
from tests.srl_envs.families.in_process import InProcess

ZERO = "def solve(data):\n    return 0"


def streams(family: str, seed: int) -> Streams:
    """Of a split that the family has tasks in, both in turn where it is in both."""
    return Streams(0, 0, int(family in EVAL_FAMILIES or seed % 2 == 1), seed)


def duel(**options: Any) -> CodeDuel:
    return CodeDuel(**{"executor": InProcess(), **options})


def play(
    game: CodeDuel, programs: tuple[str, str], attacks: tuple[Any, Any] = ([], []), seed: int = 0
) -> CodeDuelState:
    return play_from(game, game.new(Streams(seed)), programs, attacks)


def play_from(
    game: CodeDuel, state: CodeDuelState, programs: tuple[str, str], attacks: tuple[Any, Any]
) -> CodeDuelState:
    state = game.apply(state, {s: game.parse(state, s, programs[s]) for s in (0, 1)})
    if game.to_move(state):
        bodies = [json.dumps(a) for a in attacks]
        state = game.apply(state, {s: game.parse(state, s, bodies[s]) for s in (0, 1)})
    return state


def right_program(state: CodeDuelState) -> str:
    return FAMILIES[state.family].source(json.loads(state.parameters))


def wrong_program(state: CodeDuelState) -> str:
    family, parameters = FAMILIES[state.family], json.loads(state.parameters)
    return family.source(parameters, family.bugs_of(parameters)[:1])
