"""How callers name seats and policies: one form at each boundary, and an error for the other."""

import sys
from typing import Any

import pytest

import srl_envs
from srl_envs.errors import ConfigError, InvalidActionError, UnknownPolicyError
from srl_envs.wrappers import TurnLimit, numeric

GAME = "srl_envs.families.board.connect_four:ConnectFour"


def test_bots_are_seated_by_their_names_and_follow_from_the_episode() -> None:
    bots = {0: "random", 1: "strong"}
    games = [srl_envs.play("connect_four-v0", bots, seed=7) for _ in range(2)]
    env = srl_envs.make("connect_four-v0")
    games.append(srl_envs.play(env, bots, seed=7))
    assert games[0] == games[1] == games[2]
    assert not any(label for step in games[0].steps for label in step.invalid)
    assert srl_envs.play(env, bots, seed=7, split="eval").digest != games[0].digest
    assert len({srl_envs.play(env, {0: "random", 1: "random"}).digest for _ in range(4)}) == 4
    assert srl_envs.replay(games[0]) == games[0]


def test_two_seats_with_the_same_bot_do_not_share_its_draws() -> None:
    played = srl_envs.play("blotto-v0", {0: "random", 1: "random"}, seed=0)
    assert len({text for step in played.steps for text in step.replies.values()}) == 6


def test_names_callables_and_wrapped_environments_go_together() -> None:
    env = TurnLimit(srl_envs.make("connect_four-v0"), steps=3)
    middle = srl_envs.make_bot("connect_four-v0", "middle", seed=1)
    assert len(srl_envs.play(env, {0: "strong", 1: middle}, seed=0).steps) == 3


def test_one_name_seats_all_others() -> None:
    def games(opponents: Any) -> list[Any]:
        view = numeric.make_single("liars_dice-v0", opponents=opponents)
        seen = []
        for seed in range(4):
            values, _ = view.reset(seed=seed)
            over = False
            while not over:
                values, reward, over, _, _ = view.step(int(view.action_masks().argmax()))
                seen.append((values.tolist(), reward))
        return seen

    assert games("strong") == games({1: "strong", 2: "strong"}) != games({1: "strong"})


@pytest.mark.parametrize(
    ("env", "policies", "match"),
    [
        ("nim-v0", {0: "strong"}, r"seats 0 to 1; no policy for \[1\]"),
        ("nim-v0", {0: "strong", 1: "strong", 2: "strong"}, r"policies\[2\]: nim-v0 has seats 0 to 1"),
        ("nim-v0", {"player_0": "strong", "player_1": "strong"}, "agent's name; write seat 0"),
        ("nim-v0", {0: "strong", 1: 7}, r"policies\[1\]=7: give the name of a bot, or a callable"),
        ("nim-v0", "strong", r"give \{seat: policy\} for seats 0 to 1"),
        ("nim-v0", ["strong", "strong"], r"give \{seat: policy\}"),
        (None, {0: "strong", 1: "strong"}, "None is not a parallel environment"),
    ],
)  # fmt: skip
def test_what_play_cannot_seat_is_refused(env: Any, policies: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        srl_envs.play(env, policies, seed=0)


def test_a_bot_that_is_not_there_is_named_before_the_episode() -> None:
    with pytest.raises(UnknownPolicyError, match="Did you mean 'strong'"):
        srl_envs.play("nim-v0", {0: "strogn", 1: "strong"})


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"seat": "player_1"}, "seat='player_1': that is an agent's name; write seat 1"),
        ({"seat": True}, "seats 0 to 1"),
        ({"seat": 0, "opponents": {"player_1": "strong"}}, "write seat 1"),
        ({"opponents": ["strong"]}, r"a bot's name for all other seats, or \{seat: policy\}"),
        ({"opponents": {1: None}}, r"opponents\[1\]=None: give the name of a bot"),
    ],
)
def test_what_a_single_view_cannot_seat_is_refused(arguments: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        srl_envs.make_single("nim-v0", **arguments)


@pytest.mark.parametrize(
    ("actions", "match"),
    [
        ({0: "x", 1: "x"}, "step\\(\\) got seat numbers; it takes agents' names"),
        ({}, "step\\(\\) got no action; give"),
        ({"player_9": "x"}, "step\\(\\) got actions for only player_9; add"),
        (["x", "x"], "step\\(\\) got list"),
        (None, "step\\(\\) got NoneType"),
    ],
)
def test_step_says_what_it_takes(actions: Any, match: str) -> None:
    env = srl_envs.make("blotto-v0")
    env.reset(seed=0)
    with pytest.raises(InvalidActionError, match=f"player_0 is on move, but {match}"):
        env.step(actions)


def test_an_environment_without_bots_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srl_envs.registry, "_SPECS", dict(srl_envs.registry._SPECS))
    srl_envs.register(id="mine/bare-v0", entry_point=GAME, mode="competitive")
    for call in (
        lambda: srl_envs.make_bot("mine/bare-v0", "random"),
        lambda: srl_envs.play("mine/bare-v0", {0: "random", 1: "random"}),
        lambda: srl_envs.make_single("mine/bare-v0", opponents="random"),
    ):
        with pytest.raises(UnknownPolicyError, match=r"It has none: .*register\(bots=\.\.\.\)"):
            call()
    assert "mine" not in sys.modules
