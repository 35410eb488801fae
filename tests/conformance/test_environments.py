"""Every registered environment keeps the contract. A new one is tested by being registered."""

from collections.abc import Iterator

import pytest

import srl_envs
from srl_envs.registry import BOT_TIERS
from srl_envs.sandbox import lending
from srl_envs.testing import CHECKS, check_public_suites, opening

EPISODES = {name: 1 for name in srl_envs.list_envs() if srl_envs.registry.spec(name).runs_programs}
"""Environments that are slow because they run programs; the others play this many: 4."""


@pytest.fixture(scope="module", autouse=True)
def _sandboxes() -> Iterator[None]:
    """Hold what games share between tests, too: each start of a sandbox costs as much as a game."""
    held = [lending._SHARED.executor() for _ in range(lending._SERVERS)]
    yield
    held.clear()


QUICK = ("contract", "views", "splits", "hidden_information", "hidden_replies", "numeric")
"""Checks that the fast tests make of games that run programs. The others take seconds each, and
`test_environment_that_runs_programs_keeps_the_rest_of_the_contract` makes them."""

LONG = ("strength", "exploits", "subprocess")
"""Checks that take a third of the time of all; the fast tests make them in one game, the slow ones in all."""

CASES = [
    pytest.param(env_id, check, id=f"{check}-{env_id}")
    for check in CHECKS
    for env_id in srl_envs.list_envs()
    if (env_id not in EPISODES or check in QUICK)
    and (check not in LONG or env_id == "kuhn_poker-v0")
]


@pytest.mark.parametrize(("env_id", "check"), CASES)
def test_environment_keeps_the_contract(env_id: str, check: str) -> None:
    CHECKS[check](env_id, EPISODES.get(env_id, 4))


@pytest.mark.nightly
@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_public_suites_at_their_own_length(env_id: str) -> None:
    check_public_suites(env_id, cycles=1000)


@pytest.mark.nightly
@pytest.mark.parametrize("check", [name for name in CHECKS if name != "public_suites"])
@pytest.mark.parametrize("env_id", [name for name in srl_envs.list_envs() if name not in EPISODES])
def test_environment_keeps_the_contract_for_long(env_id: str, check: str) -> None:
    CHECKS[check](env_id, 8)


@pytest.mark.nightly
@pytest.mark.parametrize("check", [n for n in CHECKS if n not in (*QUICK, "public_suites")])
@pytest.mark.parametrize("env_id", EPISODES)
def test_environment_that_runs_programs_keeps_the_rest_of_the_contract(
    env_id: str, check: str
) -> None:
    CHECKS[check](env_id, 2 if check == "strength" else EPISODES[env_id])  # no deviation of one


@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_neighbours_share_no_randomness(env_id: str) -> None:
    """Fails for an environment that draws from a global generator."""
    env, neighbour = srl_envs.make(env_id), srl_envs.make(env_id)
    opening(env, seed=7)
    expected = [opening(env) for _ in range(8)]

    opening(env, seed=7)
    opening(neighbour, seed=8)

    assert [opening(env) for _ in range(8)] == expected
    env.close()
    neighbour.close()


@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_listing_says_what_the_game_is(env_id: str) -> None:
    spec = srl_envs.spec(env_id)
    env = srl_envs.make(env_id)
    assert (spec.mode, spec.seats) == (env.game.mode, env.game.seats)
    assert set(BOT_TIERS) <= set(spec.bots)
    assert spec.summary.endswith(".")
    assert len(spec.summary) <= 80
    env.close()
