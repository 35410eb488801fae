"""All checks of one environment."""

from __future__ import annotations

from collections.abc import Callable

from srl_envs.testing.contract import check_bots, check_contract, check_views
from srl_envs.testing.determinism import (
    check_determinism,
    check_reset_isolation,
    check_splits,
    check_subprocess,
)
from srl_envs.testing.hostile import check_exploits, check_fuzz, check_hidden_replies
from srl_envs.testing.payoffs import check_payoffs, check_seat_symmetry
from srl_envs.testing.public_suites import check_public_suites
from srl_envs.testing.states import check_replay, check_state_round_trip

CHECKS: dict[str, Callable[[str, int], None]] = {
    "public_suites": lambda env_id, n: check_public_suites(env_id, cycles=50 * n),
    "contract": lambda env_id, n: check_contract(env_id, episodes=n),
    "determinism": lambda env_id, n: check_determinism(env_id, episodes=n),
    "subprocess": lambda env_id, n: check_subprocess(env_id, episodes=n),
    "reset_isolation": lambda env_id, n: check_reset_isolation(env_id, episodes=n),
    "splits": lambda env_id, n: check_splits(env_id, episodes=max(50, 10 * n)),
    "state_round_trip": lambda env_id, n: check_state_round_trip(env_id, episodes=n),
    "replay": lambda env_id, n: check_replay(env_id, episodes=n),
    "views": lambda env_id, n: check_views(env_id, episodes=n),
    "bots": lambda env_id, n: check_bots(env_id, episodes=(n + 1) // 2),
    "payoffs": lambda env_id, n: check_payoffs(env_id, episodes=(n + 1) // 2),
    "seat_symmetry": lambda env_id, n: check_seat_symmetry(env_id, episodes=max(8, 10 * n)),
    "hidden_replies": lambda env_id, n: check_hidden_replies(env_id, episodes=n),
    "fuzz": lambda env_id, n: check_fuzz(env_id, replies=50 * n),
    "exploits": lambda env_id, n: check_exploits(env_id, episodes=max(2, 2 * n)),
}
"""Name -> check; the number scales how many episodes it plays."""


def check(env_id: str, *, episodes: int = 6) -> None:
    """Run every check.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many episodes the checks play, more or less; 1 or 2 suit slow environments.

    Raises:
        ConformanceError: the first check that fails.
    """
    for run in CHECKS.values():
        run(env_id, episodes)
