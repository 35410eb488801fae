"""Contract checks for environments; packages outside this one may call them in their tests.

>>> from srl_envs import testing
>>> testing.check("connect_four-v0", episodes=2)

Each function returns None or raises `ConformanceError`, whose text names the environment, the seed
and what differs.
"""

from srl_envs.testing.conformance import CHECKS, Check, check
from srl_envs.testing.contract import check_bots, check_contract, check_views
from srl_envs.testing.conversions import check_conversions
from srl_envs.testing.copies import check_copies
from srl_envs.testing.determinism import (
    check_determinism,
    check_reset_isolation,
    check_splits,
    check_subprocess,
)
from srl_envs.testing.episodes import ConformanceError, game_env, opening, record
from srl_envs.testing.hidden import check_hidden_information
from srl_envs.testing.hostile import check_exploits, check_fuzz, check_hidden_replies
from srl_envs.testing.numeric import check_numeric
from srl_envs.testing.payoffs import check_payoffs, check_seat_symmetry, check_strength
from srl_envs.testing.public_suites import check_public_suites
from srl_envs.testing.states import check_golden, check_replay, check_state_round_trip

__all__ = [
    "CHECKS",
    "Check",
    "ConformanceError",
    "check",
    "check_bots",
    "check_contract",
    "check_conversions",
    "check_copies",
    "check_determinism",
    "check_exploits",
    "check_fuzz",
    "check_golden",
    "check_hidden_information",
    "check_hidden_replies",
    "check_numeric",
    "check_payoffs",
    "check_public_suites",
    "check_replay",
    "check_reset_isolation",
    "check_seat_symmetry",
    "check_splits",
    "check_state_round_trip",
    "check_strength",
    "check_subprocess",
    "check_views",
    "game_env",
    "opening",
    "record",
]
