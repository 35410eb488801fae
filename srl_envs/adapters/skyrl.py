"""One seat of our environments as an environment of SkyRL-Gym, for SkyRL's generator and trainer.

How the concepts map:

=========================  =======================================================================
SkyRL                      here
=========================  =======================================================================
``env_class`` of a row     what `register` called one environment, with its options and opponents
``prompt`` of a row        what the seat sees first in the episode of the row's ``seed``
``init``                   starts that episode; the last message of the prompt becomes what the seat
                           sees now, which an opponent without a fixed seed may have changed
``step``                   one reply; the observation is the whole of what the seat sees next
``reward``                 ``outcome + format``, as far as the step paid
``get_metrics``            the environment's statistics, ``forfeited``, ``invalid_replies``, ``turns``
=========================  =======================================================================

SkyRL asks the environment, not itself, when a conversation has had ``generator.max_turns`` replies: the
seat then leaves the game, which forfeits by our rules.

Limits. SkyRL does not notify the environment when a conversation outgrows ``generator.max_input_length``, so
the seat keeps its rewards until then and does not forfeit: leave room for the longest
game. A failure of SRL is an exception, which ends SkyRL's step: it has no way to leave out a row. The
other seats are bots or callables, for example one that asks an endpoint; SkyRL gives an environment no
way to ask the policy in training.

Source: skyrl-gym 0.4 (``BaseTextEnv``, ``registration``); ``SkyRLGymGenerator`` and ``PromptDataset`` of
skyrl 0.3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from srl_envs.adapters.deal_seeds import deal_seeds
from srl_envs.api.making import make
from srl_envs.core import Split
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError
from srl_envs.registry import Policy
from srl_envs.views.single import GameSingle

try:
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv
except ImportError as error:
    raise ConfigError(
        f"skyrl-gym 0.4 or newer is needed: {install_command('skyrl')} ({error})."
    ) from None


class SkyRLGame(BaseTextEnv):
    """One seat for one episode; SkyRL makes one for each attempt, by what `register` was given.

    Args:
        env_id: a registered id.
        seat: whose replies SkyRL generates.
        opponents: of the other seats, as in `srl_envs.views.single.GameSingle`.
        options: as in `srl_envs.make`.
        env_config: SkyRL's own settings of the environment; there are none.
        extras: columns of the row, and ``max_turns`` of the generator.

    Raises:
        ConfigError: the row was not written by `rows`.
    """

    def __init__(
        self,
        *,
        env_id: str,
        seat: int,
        opponents: Mapping[int, str | Policy] | str | None,
        options: Mapping[str, Any],
        env_config: Any = None,
        extras: Mapping[str, Any],
    ) -> None:
        super().__init__()
        if "seed" not in extras:
            raise ConfigError(
                f"the row has no column `seed` ({', '.join(extras) or 'it has none'}): write rows with "
                "srl_envs.adapters.skyrl.rows, so that all attempts of a group meet the same deal."
            )
        self.max_turns = int(extras.get("max_turns", 0))
        (self._seed,) = deal_seeds([extras["seed"]])
        self._split = extras.get("split") or "train"
        self._view = GameSingle(make(env_id, **options), seat=seat, opponents=opponents)
        self._metrics = {"forfeited": 0.0, "invalid_replies": 0.0}

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Start the row's episode.

        Returns:
            The prompt, its last message being what the seat sees, and the metadata.
        """
        seen, _ = self._view.reset(seed=self._seed, options={"split": self._split})
        return [*prompt[:-1], _user(seen["text"])], {"seed": self._seed}

    def step(self, action: str) -> dict[str, Any]:
        """Make the seat's reply.

        Returns:
            ``observations`` (one message; none at the end), ``reward``, ``done``, ``metadata``.

        Raises:
            ConfigError: ``generator.max_turns`` is 1, SkyRL's default, and the game is longer.
        """
        seen, reward, terminated, truncated, info = self._view.step(action)
        self.turns += 1
        self._metrics["invalid_replies"] += info["invalid"] is not None
        over = terminated or truncated
        if over:
            self._metrics |= {k: float(v) for k, v in info.get("statistics", {}).items()}
            self._metrics["forfeited"] = float(info.get("forfeited", False))
        elif self.turns == self.max_turns == 1:
            raise ConfigError(
                f"{self._view.env.env_spec.id} asks its seat again, and generator.max_turns=1 ends every "
                "conversation after one reply: set it to the longest game's number of replies."
            )
        elif self.turns == self.max_turns:
            reward += self._view.forfeit()
            over, self._metrics["forfeited"] = True, 1.0
        return {
            "observations": [] if over else [_user(seen["text"])],
            "reward": float(reward),
            "done": over,
            "metadata": dict(info["reward_components"]),
        }

    def get_metrics(self) -> dict[str, float]:
        """What SkyRL averages over episodes and logs."""
        return {**self._metrics, "turns": float(self.turns)}

    def close(self) -> None:
        """Close the environment underneath."""
        self._view.close()


def register(
    env_id: str,
    *,
    name: str = "",
    seat: int = 0,
    opponents: Mapping[int, str | Policy] | str | None = None,
    **options: Any,
) -> str:
    """Make one environment known to SkyRL-Gym; call it in the process that generates.

    Args:
        env_id: a registered id of SRL.
        name: what SkyRL calls it; ``srl/`` and the id by default.
        seat: whose replies SkyRL generates.
        opponents: seat -> bot name, or a ``text -> text`` callable, of which each episode gets a copy;
            or one bot name for all other seats. Seats that are not named make random legal moves.
        **options: as in `srl_envs.make`.

    Returns:
        The name, for the rows' ``env_class``.

    Raises:
        UnknownEnvironmentError: no such id.
        ConfigError: a seat or an option is wrong, or the name is taken.
    """
    name = name or f"srl/{env_id}"
    if name in skyrl_gym.envs.registration.registry:
        raise ConfigError(f"SkyRL already has an environment {name!r}: give another name=.")
    given: dict[str, Any] = {
        "env_id": env_id,
        "seat": seat,
        "opponents": opponents,
        "options": options,
    }
    SkyRLGame(**given, extras={"seed": 0}).close()  # what is wrong fails here, not in the generator
    skyrl_gym.register(id=name, entry_point=SkyRLGame, kwargs=given)
    return name


def rows(
    name: str, seeds: Iterable[int], *, split: Split = "train", system: str = ""
) -> list[dict[str, Any]]:
    """One row per seed, for `write_rows`.

    Args:
        name: what `register` returned.
        seeds: of the episodes.
        split: of the tasks.
        system: text of a system message; none if empty.

    Raises:
        ConfigError: `register` did not return this name, or the list of seeds is empty.
    """
    known = skyrl_gym.envs.registration.registry.get(name)
    if known is None or known.entry_point is not SkyRLGame:
        raise ConfigError(f"{name!r} is not an environment of SRL: give what `register` returned.")
    head = [{"role": "system", "content": system}] if system else []
    made = []
    for seed in deal_seeds(seeds):
        game = skyrl_gym.make(name, extras={"seed": seed, "split": split})
        prompt, _ = game.init([*head, _user("")])
        game.close()
        made.append({"prompt": prompt, "env_class": name, "seed": seed, "split": split})
    return made


def write_rows(made: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write rows as the JSON lines that ``data.train_data`` names.

    Returns:
        How many there are.

    Raises:
        ConfigError: SkyRL would not take the file for JSON lines.
    """
    if path.suffix != ".jsonl":
        raise ConfigError(
            f"{path}: SkyRL recognises a file of JSON lines by its ending; call it {path.stem}.jsonl."
        )
    lines = [json.dumps(dict(row), ensure_ascii=False) + "\n" for row in made]
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": str(text)}
