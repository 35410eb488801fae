"""Write the golden transcripts anew: ``python -m tests.golden.regenerate [ENV ...]``.

Review the diff: a changed line means that the same replies are seen or paid differently, which
needs a new version of the environment.
"""

import sys
from pathlib import Path

import srl_envs
from srl_envs.registry import Policy

FOLDER = Path(__file__).parent
SEEDS = (0, 1, 2)
PAIRINGS = (("strong", "middle"), ("random", "strong"), ("held_out", "random"))
"""Bots of seats 0 and 1, one pairing per seed."""


def record(env_id: str, seed: int) -> srl_envs.Transcript:
    """The golden episode of one seed; seed 2 also has replies that are refused."""
    names = PAIRINGS[seed]
    bots: dict[int, Policy] = {
        seat: srl_envs.make_bot(env_id, names[seat % 2], seed=10 * seed + seat)
        for seat in range(srl_envs.spec(env_id).seats)
    }
    if seed == 2:
        bots[0] = _clumsy(bots[0])
    env = srl_envs.make(env_id)
    try:
        return srl_envs.play(env, bots, seed=seed, split="eval")
    finally:
        env.close()


def _clumsy(policy: Policy) -> Policy:
    """Gets every other reply wrong: without a block, then with an impossible move."""
    count = 0

    def act(text: str) -> str:
        nonlocal count
        count += 1
        if count % 2:
            return "I am not sure." if count % 4 == 1 else "<action>no such move</action>"
        return policy(text)

    return act


def main(env_ids: list[str]) -> None:
    """Write the transcripts of ``env_ids``, of all environments by default."""
    for env_id in env_ids or srl_envs.list_envs():
        for seed in SEEDS:
            path = FOLDER / f"{env_id}.{seed}.jsonl"
            record(env_id, seed).save(path)
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
