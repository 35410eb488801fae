"""TextArena's games as environments, and ours as TextArena's, with the real package."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("textarena", reason="TextArena is not installed: pip install textarena")

import textarena as ta
from textarena.envs.registration import ENV_REGISTRY

import srl_envs
from srl_envs import registry
from srl_envs.adapters import textarena as adapter
from srl_envs.adapters.textarena import TextArenaView, register_game, register_view
from srl_envs.core import Mode, Streams
from srl_envs.errors import ConfigError, EpisodeOverError, IllegalMoveError, NeighbourError
from srl_envs.testing import CHECKS, opening
from srl_envs.turns.grammar import action
from tests.srl_envs.adapters import neighbours_guide

TIC = "textarena/tic_tac_toe-v0"
KUHN = "textarena/kuhn_poker_train-v0"
DICE = "textarena/liars_dice_raw-v0"
GUESS = "textarena/guess_the_number-v0"
GAMES: tuple[tuple[str, int, Mode, str], ...] = (
    ("TicTacToe-v0", 2, "competitive", TIC),
    ("KuhnPoker-v0-train", 2, "competitive", KUHN),
    ("LiarsDice-v0-raw", 3, "mixed", DICE),
    ("GuessTheNumber-v0", 1, "mixed", GUESS),
)
GENERAL = [name for name in CHECKS if name != "exploits"]
"""All but the one that needs a ``middle`` bot."""
SHORT = (
    "contract", "determinism", "state_round_trip", "payoffs", "fuzz", "hidden_replies",
    "hidden_information", "bots",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def ids() -> Any:
    before, theirs = dict(registry._SPECS), dict(ENV_REGISTRY)
    for name, seats, mode, env_id in GAMES:
        assert register_game(name, seats=seats, mode=mode) == env_id
    yield
    for mine, kept in ((registry._SPECS, before), (ENV_REGISTRY, theirs)):
        mine.clear()
        mine.update(kept)


@pytest.mark.slow
@pytest.mark.parametrize("check", GENERAL)
def test_tic_tac_toe_keeps_our_contract(check: str) -> None:
    CHECKS[check](TIC, 1)


@pytest.mark.parametrize("check", SHORT)
@pytest.mark.parametrize("env_id", [KUHN, DICE, GUESS])
def test_games_of_one_to_three_players_keep_it_too(env_id: str, check: str) -> None:
    CHECKS[check](env_id, 1)


def play_tic(*bodies: str, **options: Any) -> Any:
    """An environment after these moves, each by the seat on move; all in the first episode."""
    env = srl_envs.make(TIC, **options)
    seen, _ = env.reset(seed=5)
    for body in bodies:
        (agent,) = [a for a, o in seen.items() if o["can_act"]]
        env.last = env.step({agent: action(body)})
        seen = env.last[0]
    return env


def test_three_in_a_row_pays_one_and_minus_one() -> None:
    env = play_tic(
        "[0]", "[3]", "1", "[4]", "[2]"
    )  # a bare number gets its brackets from TextArena
    first = env._state.players.index(0)  # TextArena's player 0 begins
    assert env.outcomes[first] == 1.0
    assert env.outcomes[1 - first] == -1.0
    for info in env.last[4].values():
        assert info["statistics"]["invalid_move"] == 0.0
        assert not info["forfeited"]


def test_two_invalid_moves_lose_and_the_offender_is_named() -> None:
    env = play_tic("[0]", "[0]", "[0]")  # the second player repeats a taken square
    first = env._state.players.index(0)
    assert env.outcomes[first] == 1.0
    invalid = [info["statistics"]["invalid_move"] for info in env.last[4].values()]
    assert invalid[first] == 0.0
    assert invalid[1 - first] == 1.0
    assert "already occupied" in env.last[0]["player_0"]["text"]


def test_only_the_action_block_reaches_textarena_and_one_bracket_of_it() -> None:
    env = srl_envs.make(TIC)
    seen, _ = env.reset(seed=5)
    (agent,) = [a for a, o in seen.items() if o["can_act"]]
    _, rewards, _, _, infos = env.step({agent: action("[0] is a corner, but I prefer [4]")})
    assert infos[agent]["invalid"] == "illegal"
    assert rewards[agent] == -0.05
    env.step({agent: "[0] is a corner, but I prefer " + action("[4]")})
    assert env._state.moves == ("[4]",)
    free = play_tic("[0] is a corner, but I prefer [4]", max_brackets=0)
    assert free._state.moves == ("[0] is a corner, but I prefer [4]",)


def test_the_process_wide_generators_are_neither_read_nor_moved() -> None:
    env = srl_envs.make(DICE)
    seen = opening(env, seed=3)
    random.setstate(random.Random(1).getstate())
    np.random.set_state(np.random.RandomState(1).get_state())  # noqa: NPY002
    python, numpy = random.getstate(), str(np.random.get_state(legacy=False))  # noqa: NPY002
    assert opening(env, seed=3) == seen
    env.step({agent: action("[Bid: 1, 2]") for agent in env.agents})
    assert random.getstate() == python
    assert str(np.random.get_state(legacy=False)) == numpy  # noqa: NPY002


def test_later_rolls_follow_from_the_seed_and_not_from_the_process() -> None:
    def rolls(noise: int) -> list[str]:
        env = srl_envs.make(DICE)
        seen, _ = env.reset(seed=11)
        texts = []
        for body in ("[Bid: 1, 2]", "[Call]", "[Bid: 1, 2]", "[Call]", "[Bid: 1, 2]"):
            for _ in range(noise):
                random.getrandbits(8)
            seen = env.step({agent: action(body) for agent in env.agents})[0]
            texts += [observation["text"] for observation in seen.values()]
        return texts

    quiet = rolls(0)
    assert quiet == rolls(7)
    assert len({line for text in quiet for line in text.split("\n") if "current Dice" in line}) > 3


def test_an_old_position_can_be_continued_differently() -> None:
    game = adapter.TicTacToe_v0__2__competitive()
    start = game.new(Streams(4))
    (seat,) = game.to_move(start)
    left, right = (game.apply(start, {seat: body}) for body in ("[0]", "[8]"))
    assert left.moves == ("[0]",)
    other = 1 - seat
    assert "'[0]'" not in game.observe(left, other).rpartition("Available")[2]
    assert "'[8]'" not in game.observe(right, other).rpartition("Available")[2]
    assert "'[0]'" in game.observe(right, other).rpartition("Available")[2]
    assert game.apply(left, {other: "[8]"}).moves == ("[0]", "[8]")


def test_every_episode_is_a_fresh_instance() -> None:
    env = srl_envs.make(TIC)
    lengths = [sum(map(len, opening(env, seed=seed).values())) for seed in range(6)]
    assert len(set(lengths)) == 1  # the default wrapper itself adds a game at every reset


def test_a_failure_inside_textarena_voids_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    from textarena.envs.TicTacToe.env import TicTacToeEnv

    env = play_tic("[0]")
    monkeypatch.setattr(TicTacToeEnv, "_check_winner", lambda self: 1 / 0)
    with pytest.raises(NeighbourError, match=r"TicTacToe-v0 failed .* ZeroDivisionError"):
        env.step({agent: action("[4]") for agent in env.agents})


def test_rewards_that_do_not_fit_void_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    paid: dict[int, float] = {}
    monkeypatch.setattr(ta.State, "close", lambda self: (paid, {0: {}, 1: {}}))
    for rewards, complaint in (
        ({}, "without rewards"),
        ({0: 3.0, 1: -3.0}, r"\[-1, 1\]"),
        ({0: 1.0, 1: 0.0}, "sum to 0"),
        ({0: float("nan"), 1: 0.0}, r"\[-1, 1\]"),
    ):
        paid.clear()
        paid.update(rewards)
        with pytest.raises(NeighbourError, match=complaint):
            play_tic("[0]", "[3]", "[1]", "[4]", "[2]")
    paid.clear()
    paid.update({0: 3.0, 1: -3.0})
    assert set(play_tic("[0]", "[3]", "[1]", "[4]", "[2]", reward_scale=3.0).outcomes) == {1, -1}


def test_the_turn_limit_pays_nothing_and_says_so() -> None:
    env = play_tic("[0]", "[1]", turns=2)
    assert env.outcomes == (0.0, 0.0)
    assert env.last[4]["player_0"]["statistics"]["turn_limit"] == 1.0


def test_the_parser_takes_any_text_but_nothing_and_many_brackets() -> None:
    game = adapter.TicTacToe_v0__2__competitive(max_brackets=2)
    state = game.new(Streams(0))
    assert game.parse(state, 0, "[1] or [2]") == "[1] or [2]"
    for wrong in ("", "[1] [2] [3]"):
        with pytest.raises(IllegalMoveError):
            game.parse(state, 0, wrong)


@pytest.mark.parametrize(
    ("name", "seats", "mode", "reason"),
    [
        ("TicTacTo-v0", 2, "mixed", "Did you mean 'TicTacToe-v0'"),
        ("TicTacToe-v0", 2, "cooperative", "mode="),
        ("TicTacToe-v0", 0, "mixed", "at least one seat"),
    ],
)
def test_a_wrong_registration_is_refused(name: str, seats: int, mode: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        register_game(name, seats=seats, mode=mode)


def test_a_wrong_number_of_players_fails_when_the_game_is_made() -> None:
    register_game("ConnectFour-v0", seats=5)
    with pytest.raises(ConfigError, match="cannot start ConnectFour-v0 with 5 players"):
        srl_envs.make("textarena/connect_four-v0")


def test_the_examples_of_the_guide_run() -> None:
    theirs_here, ours_there = neighbours_guide.examples("TextArena")
    assert neighbours_guide.run(theirs_here)["env"]._state.moves == ("[4]",)
    names = neighbours_guide.run(ours_there)
    assert names["done"]
    assert sum(names["rewards"].values()) == 0


def test_listing_loads_no_textarena() -> None:
    program = "import sys, srl_envs; srl_envs.list_envs(); sys.exit('textarena' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# the other way: our environments in TextArena


def test_our_game_played_as_textarena_users_do() -> None:
    agents = {p: srl_envs.make_bot("connect_four-v0", "middle", seed=p) for p in (0, 1)}
    env = ta.make(register_view("connect_four-v0"))
    env.reset(num_players=2, seed=7)
    done = False
    while not done:
        player, observation = env.get_observation()
        done, info = env.step(action=agents[player](observation))
        assert set(info["invalid"].values()) == {None}
    rewards, game_info = env.close()

    native = srl_envs.make("connect_four-v0")
    bots = {p: srl_envs.make_bot("connect_four-v0", "middle", seed=p) for p in (0, 1)}
    transcript = srl_envs.play(native, bots, seed=7)
    assert rewards == dict(enumerate(transcript.outcomes))
    turns = sum(game_info[p]["turn_count"] for p in (0, 1))
    assert turns == len(transcript.steps)
    assert not any(game_info[p]["invalid_move"] for p in (0, 1))


def test_simultaneous_moves_are_asked_in_turn_and_hidden() -> None:
    env = TextArenaView("iterated_dilemma-v0")
    env.reset(num_players=2, seed=1)
    first, _ = env.get_observation()
    assert env._view is not None
    before = env._view.observe("player_1")["text"]
    done, info = env.step(action("say: SECRET\nA"))
    assert (first, done, info) == (0, False, {})
    second, seen = env.get_observation()
    assert (second, seen) == (1, before)


@pytest.mark.parametrize("refused", [0, 1])
def test_only_the_player_who_was_refused_is_asked_again(refused: int) -> None:
    env = TextArenaView("iterated_dilemma-v0")
    env.reset(2, seed=0)
    for player in (0, 1):
        assert env.get_observation()[0] == player
        _, info = env.step("no block" if player == refused else action("A"))
    assert info["invalid"][refused] == "malformed"
    assert env.get_observation()[0] == refused
    _, info = env.step(action("A"))
    assert info["invalid"] == {0: None, 1: None}
    assert env.get_observation()[0] == 0


def test_silence_is_labelled_charged_and_forfeits() -> None:
    env = TextArenaView("connect_four-v0", invalid="forfeit")
    env.reset(num_players=2, seed=0)
    player, _ = env.get_observation()
    done, info = env.step("I pass.")
    rewards, infos = env.close()
    assert done
    assert info["invalid"][player] == "malformed"
    assert rewards == {player: -1.0, 1 - player: 1.0}
    assert [infos[p]["invalid_move"] for p in (player, 1 - player)] == [True, False]
    assert infos[player]["format"] == -0.05


def test_a_view_can_be_used_again_and_says_when_it_cannot() -> None:
    env = TextArenaView("connect_four-v0")
    with pytest.raises(EpisodeOverError):
        env.get_observation()
    with pytest.raises(ConfigError, match="2 seats, not 3"):
        env.reset(num_players=3)
    env.reset(num_players=2, seed=4)
    seen = env.get_observation()
    assert env.close()[0] is None
    env.reset(num_players=2, seed=4)
    assert env.get_observation() == seen
