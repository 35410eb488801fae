from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.errors import ConfigError, UnknownPolicyError
from srl_envs.views.single import GameSingle

Texts = list[str]


def logged(policy: Callable[[str], str], texts: Texts) -> Callable[[str], str]:
    def act(text: str) -> str:
        texts.append(text)
        return policy(text)

    return act


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("env_id", ["connect_four-v0", "math_duel-v0"])
def test_equals_the_parallel_view(env_id: str, seat: int) -> None:
    def bot(number: int) -> Callable[[str], str]:
        return srl_envs.make_bot(env_id, "middle", seed=number)

    expected: Texts = []
    players = {seat: logged(bot(seat), expected), 1 - seat: bot(1 - seat)}
    transcript = srl_envs.play(srl_envs.make(env_id), players, seed=4)

    view = srl_envs.make_single(env_id, seat=seat, opponents={1 - seat: bot(1 - seat)})
    texts: Texts = []
    me = logged(bot(seat), texts)
    seen, _ = view.reset(seed=4)
    total, over = 0.0, False
    while not over:
        seen, reward, over, _, info = view.step(me(seen["text"]))
        total += reward
    assert texts == expected
    assert total == pytest.approx(transcript.rewards[seat])
    assert info["statistics"].items() <= transcript.components[seat].items()


def test_named_opponents_are_made_anew_from_the_seed() -> None:
    def game(view: GameSingle, seed: int | None) -> list[str]:
        seen, _ = view.reset(seed=seed)
        texts, over = [seen["text"]], False
        while not over:
            legal = seen["text"].split("Open columns: ")[1].split()
            seen, _, over, _, _ = view.step(f"<action>{legal[0]}</action>")
            texts.append(seen["text"])
        return texts

    view = srl_envs.make_single("connect_four-v0", opponents={1: "random"})
    other = srl_envs.make_single("connect_four-v0", opponents={1: "random"})
    assert game(view, 3) == game(view, 3) == game(other, 3)
    assert game(view, None) == game(other, None)
    assert len({str(game(view, seed)) for seed in range(6)}) > 1


def test_unnamed_opponents_make_legal_moves_that_the_seed_decides() -> None:
    def outcome(seed: int) -> list[str]:
        view = srl_envs.make_single("connect_four-v0")
        seen, _ = view.reset(seed=seed)
        texts, over = [seen["text"]], False
        while not over:
            legal = seen["text"].split("Open columns: ")[1].split()
            seen, _, over, _, _ = view.step(f"<action>{legal[-1]}</action>")
            texts.append(seen["text"])
        assert view.env.forfeited == ()
        return texts

    assert outcome(1) == outcome(1)
    assert len({str(outcome(seed)) for seed in range(6)}) > 1


def test_an_opponent_that_forfeits_before_our_first_move_still_pays_us() -> None:
    mute = {1: lambda _: "no block"}
    view = srl_envs.make_single("connect_four-v0", opponents=mute, invalid="forfeit")
    seeds = range(8)
    begins = [seed for seed in seeds if not view.reset(seed=seed)[0]["can_act"]]
    assert 0 < len(begins) < len(seeds)
    view.reset(seed=begins[0])
    _, reward, terminated, truncated, info = view.step("<action>1</action>")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["forfeited"] is False


def test_what_is_returned_belongs_to_the_caller() -> None:
    view = srl_envs.make_single("connect_four-v0")
    seen, _ = view.reset(seed=0)
    text = seen["text"]
    seen.clear()
    assert view.reset(seed=0)[0]["text"] == text


def test_np_random_is_the_environments_own() -> None:
    view = srl_envs.make_single("connect_four-v0")
    view.reset(seed=9)
    assert isinstance(view.np_random, np.random.Generator)
    assert view.np_random_seed == 9


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"seat": 2}, ConfigError, "seats 0 to 1"),
        ({"seat": -1}, ConfigError, "seats 0 to 1"),
        ({"opponents": {0: "random"}}, ConfigError, "other than 0"),
        ({"opponents": {5: "random"}}, ConfigError, r"opponents\[5\]"),
        ({"opponents": {1: "randon"}}, UnknownPolicyError, "Did you mean 'random'"),
        ({"opponents": {1: "random"}, "colls": 7}, ConfigError, "Did you mean 'cols'"),
    ],
)
def test_wrong_arguments_fail_at_once(
    arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        srl_envs.make_single("connect_four-v0", **arguments)
