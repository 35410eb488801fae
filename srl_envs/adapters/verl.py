"""Our environments for veRL: rows of prompts with a rule that scores replies, as its Parquet files have them.

How the concepts map:

=========================  =======================================================================
veRL                       here
=========================  =======================================================================
row of the dataset         the first thing that one seat sees in the episode of a seed
``prompt``                 that text, as one message of a user
``reward_model``           ``style: rule``; ``ground_truth`` names the episode, as JSON
``custom_reward_function`` `compute_score`: plays the reply in that episode and pays what the rules pay
=========================  =======================================================================

    data.train_files=train.parquet
    custom_reward_function.path=.../srl_envs/adapters/verl.py custom_reward_function.name=compute_score

Limits. veRL's reward function sees one reply, so the seat must be asked once: `rows` plays an episode and
refuses an environment that asks again. The other seats are bots, not copies of the policy in training. A
failure of ours is an exception, which ends veRL's step: it has no way to leave out a row.

Source: ``verl/utils/dataset/rl_dataset.py`` and ``verl/experimental/reward_loop`` of verl 0.9. verl itself
is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from srl_envs.core import Split
from srl_envs.errors import ConfigError
from srl_envs.making import make, make_bot
from srl_envs.registry import Policy
from srl_envs.single import GameSingle

SOURCE = "srl_envs/"
"""Begins ``data_source``; the environment's id follows."""
_LONGEST = 1000
"""Replies after which an episode counts as endless."""


def rows(
    env_id: str,
    seeds: Iterable[int],
    *,
    split: Split = "train",
    seat: int = 0,
    opponents: str | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """One row per seed, for `write_rows`.

    Args:
        env_id: a registered id, of a game that asks the seat once.
        seeds: of the episodes.
        split: of the tasks.
        seat: whose reply is scored.
        opponents: bot that plays all other seats; random legal moves by default.
        **options: as in `srl_envs.make`.

    Raises:
        ConfigError: the seat is asked more than once, or there are no seeds.
    """
    made = []
    options = {"invalid": "forfeit", **options}  # there is no second try
    view = GameSingle(make(env_id, **options), seat=seat, opponents=opponents)
    try:
        for index, seed in enumerate(seeds):
            seen, _ = view.reset(seed=seed, options={"split": split})
            named = {
                "env_id": env_id, "seed": seed, "split": split, "seat": seat,
                "opponents": opponents, "options": options,
            }  # fmt: skip
            made.append(
                {
                    "data_source": SOURCE + env_id,
                    "prompt": [{"role": "user", "content": str(seen["text"])}],
                    "ability": "game",
                    "reward_model": {"style": "rule", "ground_truth": json.dumps(named)},
                    "extra_info": {"split": split, "index": index, "seed": seed},
                }
            )
            if index == 0:
                _require_one_reply(view, make_bot(env_id, "random", seed=0))
    finally:
        view.close()
    if not made:
        raise ConfigError("no seeds: give one per row.")
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
    if not data_source.startswith(SOURCE):
        raise ConfigError(f"data_source {data_source!r} is not ours: rows come from `rows`.")
    named = json.loads(ground_truth)
    env = make(named["env_id"], **named["options"])
    view = GameSingle(env, seat=named["seat"], opponents=named["opponents"])
    try:
        view.reset(seed=named["seed"], options={"split": named["split"]})
        _, reward, terminated, truncated, _ = view.step(solution_str)
        if not (terminated or truncated):
            raise _asks_again(named["env_id"])
        return float(reward)
    finally:
        view.close()


def _require_one_reply(view: GameSingle, bot: Policy) -> None:
    """Refuse a game that asks the seat again after a bot's reply."""
    seen = view.env.observation(view.env.possible_agents[view.seat])
    _, _, terminated, truncated, _ = view.step(bot(str(seen["text"])))
    if not (terminated or truncated):
        raise _asks_again(view.env.env_spec.id)


def _asks_again(env_id: str) -> ConfigError:
    return ConfigError(
        f"{env_id} asks its seat more than once, and veRL's reward function sees one reply. Use options with "
        "which it asks once, such as math_duel-v0 with problems=1, or train with `srl train`."
    )
