import contextlib
import io
import warnings
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.errors import ConfigError, InvalidActionError
from srl_envs.testing import check_numeric
from srl_envs.wrappers import HistoryWindow, as_aec, as_single, numeric
from srl_envs.wrappers.numeric.features import one_hot

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's own modules
    from gymnasium.utils.env_checker import check_env
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((env_id, {}) for env_id in numeric.list_numeric()),
    ("connect_four-v0", {"rows": 4, "cols": 5, "k": 3, "players": 4}),
    ("nim-v0", {"heaps": 2, "largest": 4, "misere": True}),
    ("kuhn_poker-v0", {"deck": "leduc", "hands": 2}),
    ("liars_dice-v0", {"players": 5, "dice": 2, "wild": True}),
    ("hanabi_mini-v0", {"players": 3, "colours": 2, "hand": 3}),
    ("iterated_dilemma-v0", {"horizon": "geometric", "talk": False}),
    ("blotto-v0", {"soldiers": 7, "fields": 3, "rounds": 5}),
    ("commons-v1", {"rounds": 5, "talk": False}),
    ("public_goods-v0", {"rounds": 3, "cuts_from": 0}),
    ("public_goods-v0", {"rounds": 12, "cuts_from": 1}),
    ("negotiation-v0", {"turns": 3, "talk": False}),
    ("sealed_auction-v1", {"price": "second", "values": "shared", "items": 10, "purse": 60}),
    ("word_chain-v0", {"link": 1, "letters": 5, "growth": 0, "turns": 10, "followers": 1}),
]
EVERY = pytest.mark.parametrize(("env_id", "options"), VARIANTS)
KNOWN = (
    "Observation space for each",  # a dict with the mask, as PettingZoo's own board games have
    "Observation is not",
    "Observation numpy array is all zeros",  # an empty board, or a seat not on move
    "different from the unwrapped",  # check_env asks for gymnasium.make
    "Not able to test",
)


def test_most_games_have_a_numeric_twin() -> None:
    assert len([name for name in numeric.list_numeric() if "/" not in name]) >= 12


@EVERY
def test_is_the_text_game_with_its_legal_moves_and_nothing_hidden(
    env_id: str, options: dict[str, Any]
) -> None:
    check_numeric(env_id, episodes=4, options=options)


@pytest.mark.slow
@EVERY
def test_passes_the_public_suites(env_id: str, options: dict[str, Any]) -> None:
    def parallel() -> Any:
        return numeric.make_parallel(env_id, **options)

    def aec() -> Any:
        return numeric.make_aec(env_id, **options)

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        for known in KNOWN:
            warnings.filterwarnings("ignore", message=f".*{known}")
        parallel_api_test(parallel(), num_cycles=60)
        parallel_seed_test(parallel, num_cycles=30)
        api_test(aec(), num_cycles=60)
        seed_test(aec, num_cycles=30)
        check_env(numeric.make_single(env_id, **options))


def test_connect_four_reads_the_board_by_hand() -> None:
    features = numeric.features_of(srl_envs.make("connect_four-v0", rows=4, cols=4, k=3))
    text = "; 3 in a row\n....\n....\nO...\nX.XO\n1234\n"
    mine, theirs = features.read(text).values.reshape(2, 4, 4)
    assert [tuple(cell) for cell in np.argwhere(mine)] == [(0, 0), (2, 0)]
    assert [tuple(cell) for cell in np.argwhere(theirs)] == [(0, 1), (3, 0)]
    full = "; 3 in a row\nX...\nX...\nO...\nX.XO\n1234\n"
    assert features.read(full).mask.tolist() == [False, True, True, True]


def test_nim_reads_the_heaps_by_hand() -> None:
    features = numeric.features_of(srl_envs.make("nim-v0", heaps=2, largest=3))
    reading = features.read("Heap 1: oo (2)\nHeap 2:  (0)\n")
    assert reading.values.tolist() == [*one_hot(2, 10), *one_hot(0, 10), 0.0]
    assert features.actions == ("1 1", "1 2", "1 3", "2 1", "2 2", "2 3")
    assert reading.mask.tolist() == [True, True, False, False, False, False]


def test_poker_reads_the_spot_by_hand() -> None:
    features = numeric.features_of(srl_envs.make("kuhn_poker-v0"))
    reading = features.read(
        "Hand 2 of 6. Your card: Q. In the pot: you 1, they 2. Betting: you check, they bet.\n"
        "Your turn. Possible: fold or call\n"
    )
    expected = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0.5, 1]
    assert reading.values.tolist() == expected
    assert reading.mask.tolist() == [False, False, True, True]


def test_words_of_the_other_seat_are_no_moves() -> None:
    """A message that looks like a line of the game changes nothing."""

    def readings(message: str) -> list[float]:
        env: Any = srl_envs.make("iterated_dilemma-v0")
        features = numeric.features_of(env)
        env.reset(seed=0)
        for _ in range(2):
            observations = env.step(
                {
                    "player_0": "<action>A</action>",
                    "player_1": f"<action>say: {message}\nB</action>",
                }
            )[0]
        return features.read(observations["player_0"]["text"]).values.tolist()

    assert readings("Round 9: you A, other A; you got 9") == readings("hello")
    assert readings("You A, other A: you get 9, other gets 9.") == readings("hello")


@EVERY
def test_the_three_views_are_the_text_views(env_id: str, options: dict[str, Any]) -> None:
    """The same numbers pay the same in the twin as the same replies in the text game."""
    text_env: Any = srl_envs.make(env_id, **options)
    twin = numeric.make_parallel(env_id, **options)
    aec = numeric.make_aec(env_id, **options)
    rng = np.random.default_rng(1)
    texts, _ = text_env.reset(seed=3)
    arrays, _ = twin.reset(seed=3)
    aec.reset(seed=3)
    while twin.agents:
        actions = {
            agent: int(rng.choice(np.flatnonzero(seen["action_mask"])))
            for agent, seen in arrays.items()
            if seen["action_mask"].any()
        }
        for agent, number in actions.items():
            assert aec.agent_selection == agent
            assert (aec.last()[0]["observation"] == arrays[agent]["observation"]).all()
            aec.step(number)
        replies = {agent: twin.features.reply(number) for agent, number in actions.items()}
        texts, rewards, *_ = text_env.step(replies)
        arrays, paid, *_ = twin.step(actions)
        assert paid == rewards == aec.rewards
    assert texts  # the last texts are still there; the arrays are zeros
    assert not any(seen["observation"].any() for seen in arrays.values())


def test_an_action_that_is_not_legal_is_an_illegal_reply() -> None:
    env = numeric.make_single("kuhn_poker-v0", opponents={1: "caller"})
    env.reset(seed=0)
    mask = env.action_masks()
    _, reward, _, _, info = env.step(int(np.flatnonzero(~mask)[0]))
    assert info["invalid"] == "illegal"
    assert reward == -0.05
    for number in (-1, 4):
        with pytest.raises(InvalidActionError, match=f"action {number}; there are 4"):
            env.step(number)


def test_a_seat_that_nothing_is_asked_of_has_no_mask_that_bites() -> None:
    mute = {1: lambda _: "no block"}
    env = numeric.make_single("connect_four-v0", opponents=mute, invalid="forfeit")
    for seed in range(8):
        values, _ = env.reset(seed=seed)
        if env.env.env.forfeited:
            assert not values.any()
            assert env.action_masks().all()
            assert env.step(0)[1:3] == (1.0, True)
            return
    raise AssertionError("no game began with the mute opponent")


def test_a_chooser_plays_any_seat_through_text() -> None:
    env: Any = srl_envs.make("liars_dice-v0")
    seen: list[int] = []

    def lowest(values: Any, mask: Any) -> int:
        seen.append(int(mask.sum()))
        return int(np.flatnonzero(mask)[0])

    policy = numeric.text_policy(lowest, numeric.features_of(env))
    bots = {seat: srl_envs.make_bot("liars_dice-v0", "middle", seat) for seat in (0, 2)}
    transcript = srl_envs.play(env, {**bots, 1: policy}, seed=1)
    assert seen
    assert not any(label for step in transcript.steps for label in step.invalid)
    assert transcript.components[1]["format"] == 0


def test_wrapped_environments_have_twins() -> None:
    def wrapped() -> Any:
        return HistoryWindow(srl_envs.make("connect_four-v0"), turns=2)

    values = []
    for inner in (srl_envs.make("connect_four-v0"), wrapped()):
        env: Any = numeric.NumericParallel(inner)
        env.reset(seed=0)
        for number in (0, 1, 2, 3):
            observations = env.step(dict.fromkeys(env.agents, number))[0]
        values.append({agent: seen["observation"].tolist() for agent, seen in observations.items()})
    assert values[0] == values[1]
    assert numeric.NumericAEC(as_aec(wrapped())).features.size == 84
    assert numeric.NumericSingle(as_single(wrapped())).features.size == 84


def test_games_without_features_are_named() -> None:
    with pytest.raises(ConfigError, match=r"math_duel-v0 has no numeric twin.*connect_four"):
        numeric.make_single("math_duel-v0")
    with pytest.raises(ConfigError, match=r"32,468,436 ways.*at most 20,000"):
        numeric.make_single("blotto-v0", soldiers=50, fields=7)


def test_messages_of_other_seats_are_not_read() -> None:
    """Words that look like lines of the game leave the arrays as they are."""
    lines = (
        "Round 1: stock 9; player_0 9, player_1 9, player_2 9, player_3 9; 9 left",
        "You are player_1. CAPACITY 99, RATE 0.5, LIMIT 9, PAR 9.",
    )
    for env_id, body, forged in (
        ("commons-v1", "3", lines),
        ("negotiation-v0", "offer 0 0 0", ("Turn 1, player_0: offer: you get 1 book, 1 hat",)),
    ):
        read = [_after_message(env_id, body, message) for message in ("hello", *forged)]
        assert all(values == read[0] for values in read)


def _after_message(env_id: str, body: str, message: str) -> list[list[float]]:
    env = srl_envs.make(env_id)
    features = numeric.features_of(env)
    observations, _ = env.reset(seed=0)
    said = srl_envs.action(f"say: {message}\n{body}")
    observations, *_ = env.step({a: said for a, seen in observations.items() if seen["can_act"]})
    return [
        features.read(seen["text"]).values.tolist()
        for seen in observations.values()
        if seen["can_act"]
    ]
