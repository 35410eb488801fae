"""Examples of a prompt that a bot plays, so that they change with the game's own text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import srl_envs
from srl_agents.agents.prompt_file import ExampleTurn, PlayedExamplesSettings, PromptSettings
from srl_agents.league.settings import require
from srl_agents.recipes.sections.games import Game
from srl_envs.api.episode import Step


def with_played(prompt: PromptSettings, games: Sequence[Game]) -> PromptSettings:
    """Replace ``examples_from`` with the turns that its bot plays in each game.

    Args:
        prompt: as the recipe has it; without ``examples_from`` it is returned unchanged.
        games: of the recipe, in their order.

    Raises:
        ConfigError: a game has no such bot, or its bot made no legal move.
    """
    played = prompt.examples_from
    if played is None:
        return prompt
    turns = tuple(turn for game in games for turn in _turns(played, game))
    return replace(prompt, examples=turns + prompt.examples, examples_from=None)


def _turns(played: PlayedExamplesSettings, game: Game) -> list[ExampleTurn]:
    """As many turns as asked for, each of another episode of the training split."""
    game.check_bots("prompt.examples_from.bot", (played.bot,))
    env: Any = srl_envs.make(game.env_id, **game.options)
    turns = []
    with closing(env):
        for number in range(played.turns):
            decisions = _decisions(env, played.bot, number)
            require(
                bool(decisions),
                f"prompt.examples_from: {played.bot!r} makes no legal move in {game.name}; "
                "name another bot.",
            )
            # Openings first, later turns towards the end: a prompt shows every phase of a match.
            turns.append(decisions[len(decisions) * number // played.turns])
    return turns


def _decisions(env: Any, bot: str, seed: int) -> list[ExampleTurn]:
    """Every legal move of one episode that the bot plays in all seats, in order."""
    found: list[ExampleTurn] = []

    def note(observations: dict[str, dict[str, Any]], step: Step) -> None:
        for seat, reply in step.replies.items():
            if step.invalid[seat] is None:
                seen: Mapping[str, Any] = observations[env.possible_agents[seat]]
                found.append(ExampleTurn(observation=seen["text"], reply=reply))

    seats = dict.fromkeys(range(len(env.possible_agents)), bot)
    srl_envs.play(env, seats, seed, split="train", on_step=note)
    return found
