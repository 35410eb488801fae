"""Our environments for veRL: rows that name episodes, as its Parquet files have them, and a rule of rewards.

How the concepts map:

=========================  =======================================================================
veRL                       here
=========================  =======================================================================
row of the dataset         the first thing that one seat sees in the episode of a seed
``prompt``                 that text, as one message of a user
``reward_model``           ``style: rule``; ``ground_truth`` names the episode, as JSON
``custom_reward_function`` `compute_score`: plays the reply in that episode and pays what the rules pay
``agent_name``             the loop of `srl_envs.adapters.verl_loop`, which plays games of several turns
=========================  =======================================================================

    data.train_files=train.parquet
    reward.custom_reward_function.path=pkg://srl_envs.adapters.verl
    reward.custom_reward_function.name=compute_score

Limits. veRL's reward function sees one reply, so the seat must be asked once: `rows` plays an episode and
refuses an environment that asks again, unless the agent loop is to play it. A failure of SRL is an
exception, which ends veRL's step: its reward function has no way to leave out a row.

Source: ``verl/utils/dataset/rl_dataset.py`` and ``verl/experimental/reward_loop`` of verl 0.9. verl itself
is not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from srl_envs.adapters.deal_seeds import deal_seeds
from srl_envs.adapters.named_episode import POLICY, NamedEpisode
from srl_envs.api.making import make
from srl_envs.core import Split
from srl_envs.errors import ConfigError
from srl_envs.parallel import GameEnv
from srl_envs.turns.grammar import action

SOURCE = "srl_envs/"
"""Begins ``data_source``; the environment's id follows."""
AGENT_LOOP = "srl_game"
"""``agent_name`` of rows that `srl_envs.adapters.verl_loop.GameLoop` plays."""


def rows(
    env_id: str,
    seeds: Iterable[int],
    *,
    split: Split = "train",
    seat: int = 0,
    opponents: Mapping[int, str] | str | None = None,
    agent_loop: bool = False,
    system: str = "",
    **options: Any,
) -> list[dict[str, Any]]:
    """One row per seed, for `write_rows`.

    Args:
        env_id: a registered id, of a game that asks the seat once unless ``agent_loop``.
        seeds: of the episodes.
        split: of the tasks.
        seat: whose replies are generated and learned.
        opponents: seat -> bot's name, or one for all other seats; random legal moves by default. With
            ``agent_loop`` also "policy": the policy in training plays that seat, and learns nothing there.
        agent_loop: whether `srl_envs.adapters.verl_loop.GameLoop` plays the rows, over all turns.
        system: text of a system message; none if empty.
        **options: as in `srl_envs.make`.

    Raises:
        UnknownEnvironmentError: no such id.
        UnknownPolicyError: the environment has no such bot.
        ConfigError: the seat is asked more than once, or never; a seat, an opponent or an option is
            impossible; or the list of seeds is empty.
    """
    if not agent_loop:
        options = {"invalid": "forfeit", **options}  # a reply has one try
    env = make(env_id, **options)
    try:
        others = _opponents(env, seat, opponents)
        if POLICY in others.values() and not agent_loop:
            raise ConfigError(
                f"opponents={opponents!r}: a reward function cannot ask the policy; use agent_loop=True."
            )
        head = [{"role": "system", "content": system}] if system else []
        made = []
        for index, seed in enumerate(deal_seeds(seeds)):
            named = NamedEpisode(env_id, seed, split, seat, others, options)
            episode = named.start(env, self_play=False)
            if episode.waiting is None:
                raise ConfigError(
                    f"{env_id}, seed {seed}: the game ends before seat {seat} is asked."
                )
            user = {"role": "user", "content": episode.waiting[1]}
            made.append(
                {
                    "data_source": SOURCE + env_id,
                    "prompt": [*head, user],
                    "ability": "game",
                    "reward_model": {"style": "rule", "ground_truth": named.text()},
                    "extra_info": {"split": split, "index": index, "seed": seed},
                    **({"agent_name": AGENT_LOOP} if agent_loop else {}),
                }
            )
            if index == 0 and not agent_loop:
                episode.reply(action(env.sample_legal(seat, np.random.default_rng(0))))
                if episode.waiting:
                    raise _asks_again(env_id)
    finally:
        env.close()
    return made


def write_rows(made: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write rows as the Parquet file that ``data.train_files`` names; needs pyarrow.

    Returns:
        How many there are.
    """
    from pyarrow import Table, parquet  # noqa: PLC0415 - an extra

    table = Table.from_pylist([dict(row) for row in made])
    parquet.write_table(table, path)
    return int(table.num_rows)


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Any = None,  # noqa: ARG001 - veRL names it
) -> float:
    """What the rules pay for a reply: ``outcome + format`` of its episode, for veRL's reward manager.

    Args:
        data_source: of the row.
        solution_str: the reply.
        ground_truth: of the row.
        extra_info: of the row; not needed.

    Raises:
        ConfigError: the row was not written by `rows`, or its game asks the seat again.
    """
    if not str(data_source).startswith(SOURCE):
        raise ConfigError(f"data_source {data_source!r} is not ours: rows come from `rows`.")
    named = NamedEpisode.of_row(ground_truth)
    if data_source != SOURCE + named.env_id:
        raise ConfigError(
            f"data_source {data_source!r} with a ground_truth of {named.env_id!r}: keep what `rows` wrote "
            "together."
        )
    env = named.make()
    try:
        episode = named.start(env, self_play=False)
        episode.reply(solution_str)
        if episode.waiting:
            raise _asks_again(named.env_id)
        return episode.paid[named.seat]
    finally:
        env.close()


def _opponents(
    env: GameEnv, seat: int, opponents: Mapping[int, str] | str | None
) -> dict[int, str]:
    if isinstance(opponents, str):
        return {other: opponents for other in range(len(env.possible_agents)) if other != seat}
    others = {} if opponents is None else opponents
    if not isinstance(others, Mapping) or not all(isinstance(n, str) for n in others.values()):
        raise ConfigError(
            f"opponents={opponents!r}: give a bot's name for all other seats, or {{seat: name}}; a row "
            "holds only names."
        )
    return dict(others)


def _asks_again(env_id: str) -> ConfigError:
    return ConfigError(
        f"{env_id} asks its seat more than once, and veRL's reward function sees one reply. Make rows with "
        "agent_loop=True, or use options with which it asks once, such as math_duel-v0 with problems=1."
    )
