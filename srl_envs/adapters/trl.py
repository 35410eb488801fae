"""Our environments for TRL's ``environment_factory``: one seat is trained, the others are played by bots.

How the concepts map:

=========================  =======================================================================
TRL                        here
=========================  =======================================================================
environment instance       one seat of an environment; reused for episode after episode
``reset(**row)``           starts the episode of the row's ``seed`` (and ``split``); its text is what
                           the seat sees first, which TRL appends to the last message of the prompt
tool                       ``act(action)``: one reply; its result is what the seat sees next
``get_reward()``           ``outcome + format`` of the episode
=========================  =======================================================================

Seeds. TRL hands every attempt of a group the same row, so a column ``seed`` makes a group meet the same
deal; `rows` writes such rows. Without it the attempts of a group could not be compared, so `reset`
refuses the row.

A model that stops calling the tool before the end forfeits: it gets what the rules pay a seat that
forfeits, in place of what is not paid yet. A reply after the end changes nothing.

Limits. TRL turns an exception of a tool into a text for the model, so a failure of SRL is kept back
until the reward: `get_reward` is then None. TRL 1.16 sums such a row to 0 before it centres the group's
rewards (with a warning), which is not the same as leaving it out; it has no way to leave it out. The
other seats are bots or plain callables, not a copy of the policy in training: TRL generates for one
seat only. A callable must be picklable for the asynchronous trainer; names of bots are.

What TRL asks of the rest: transformers 5.2 or newer (below 5.13 the package jmespath too), and a chat
template that renders tool calls and tool results and that TRL can parse, such as those of
Qwen 2.5 and 3, Llama 3.1 and 3.2 or GPT-OSS. The shipped tiny model's template renders no tools.

Source: the protocol of ``GRPOTrainer`` in TRL 1.16. TRL itself is not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from srl_envs.api.making import make
from srl_envs.core import Split
from srl_envs.errors import ConfigError, SandboxError
from srl_envs.registry import Policy
from srl_envs.turns.grammar import OPEN, action
from srl_envs.views.single import GameSingle

_HOW_TO_REPLY = (
    "Make each of your moves by calling the tool `act`. Its argument is what would stand between "
    "<action> and </action>.\n\n"
)


class TRLGame:
    """One seat of an environment as TRL calls it; made by `environment_factory`.

    Every public method but ``reset`` and ``get_reward`` is a tool, so there is one: ``act``.

    Args:
        view: the seat.
    """

    def __init__(self, view: GameSingle) -> None:
        self._view = view
        self._over = True
        self._reward = 0.0
        self._fault = ""

    def reset(self, **row: Any) -> str:
        """Start the episode of the row's ``seed``.

        Returns:
            How to reply, and what the seat sees.

        Raises:
            ConfigError: the row has no ``seed``.
        """
        seed = row.get("seed")
        if seed is None:
            raise ConfigError(
                "the dataset needs a column `seed` (see srl_envs.adapters.trl.rows): without it the "
                "attempts of one group would play different deals."
            )
        options = {"split": row["split"]} if row.get("split") else None
        seen, _ = self._view.reset(seed=int(seed), options=options)
        self._over, self._reward, self._fault = False, 0.0, ""
        return _HOW_TO_REPLY + str(seen["text"])

    def act(self, action: str) -> str:
        """Make your move in the game.

        Args:
            action: The move, in the form that the rules of the game ask for.

        Returns:
            What you see next, or how the game ended.
        """
        if self._over:
            return "The game is over. Make no further move."
        try:
            seen, reward, terminated, truncated, info = self._view.step(_as_reply(action))
        except SandboxError as error:
            self._over, self._fault = True, str(error)
            return "The game was stopped, through no fault of yours. Make no further move."
        self._reward += reward
        self._over = terminated or truncated
        end = "\n\nThe game is over. You forfeited." * bool(info.get("forfeited"))
        return str(seen["text"]) + (end or "\n\nThe game is over." * self._over)

    def get_reward(self) -> float | None:
        """``outcome + format``; what a forfeit pays where the game was left; None where we failed."""
        if self._fault:
            return None
        if self._over:
            return self._reward
        return self._reward + self._view.forfeit()


@dataclass(frozen=True, slots=True)
class EnvironmentFactory:
    """Makes one `TRLGame` per call; survives pickling where its opponents do."""

    env_id: str
    seat: int
    opponents: Mapping[int, str | Policy] | str | None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> TRLGame:
        """A new environment, as TRL's factory must return."""
        env = make(self.env_id, **self.options)
        return TRLGame(GameSingle(env, seat=self.seat, opponents=self.opponents))


def environment_factory(
    env_id: str,
    *,
    seat: int = 0,
    opponents: Mapping[int, str | Policy] | str | None = None,
    **options: Any,
) -> EnvironmentFactory:
    """For ``GRPOTrainer(environment_factory=...)``.

    Args:
        env_id: a registered id.
        seat: the seat that is trained.
        opponents: seat -> bot name, or a ``text -> text`` callable; or one bot name for all other
            seats. Seats that are not named make random legal moves.
        **options: as in `srl_envs.make`.

    Raises:
        UnknownEnvironmentError: no such id.
        ConfigError: a seat or an option is wrong.
    """
    factory = EnvironmentFactory(env_id, seat, opponents, options)
    factory()._view.close()  # what is wrong fails here, not inside the trainer
    return factory


def rows(seeds: Iterable[int], *, split: Split = "train", system: str = "") -> list[dict[str, Any]]:
    """Rows for a dataset: one start state each, ``datasets.Dataset.from_list(rows(range(100)))``.

    Args:
        seeds: of the episodes.
        split: "train" and "eval" never draw the same instance where the game's ``spec.held_out``.
        system: text of a system message; none if empty.

    Returns:
        ``prompt`` (an empty user message, to which TRL appends what `TRLGame.reset` returns),
        ``seed`` and ``split``.
    """
    head = [{"role": "system", "content": system}] if system else []
    return [
        {"prompt": [*head, {"role": "user", "content": ""}], "seed": seed, "split": split}
        for seed in seeds
    ]


def _as_reply(body: str) -> str:
    """The tool's argument as a reply; a model that writes the whole block is understood as well."""
    text = str(body)
    return text if OPEN in text else action(text)
