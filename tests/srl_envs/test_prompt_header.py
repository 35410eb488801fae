"""Rules for replies in every prompt, and that they hold: costs, default moves, forfeits, forgiveness."""

from typing import Any

import pytest

import srl_envs
from srl_envs.core import SPLITS, Streams, episode_entropy, split_of_instance
from srl_envs.errors import ConfigError
from srl_envs.turns.grammar import action

BABBLE = "I would rather not say."
IDS = [e for e in srl_envs.list_envs() if not e.startswith(("open_spiel", "textarena"))]


@pytest.mark.parametrize("env_id", IDS)
def test_every_prompt_begins_with_the_header_and_tells_its_payoff_once(env_id: str) -> None:
    env = srl_envs.make(env_id)
    for seen in env.reset(seed=3)[0].values():
        assert seen["text"].startswith(env.header)
        rules = seen["text"].split("\n")
        assert sum(line.startswith("Payoff: ") for line in rules) == 1
        assert sum(line.startswith("Reply with ") for line in rules) >= 1
    env.close()


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        (
            {},
            "after 3 in one turn, a default move is played. 3 default moves, or no move of your own,",
        ),
        ({"max_retries": 0}, "after one, a default move is played."),
        ({"forfeit_after": 1}, "1 default move, or no move of your own, forfeit"),
        ({"invalid": "forfeit"}, "without a legal move forfeits the game, which pays -1."),
        ({"invalid": "random_legal"}, "costs 0.05, and a random legal move is played."),
    ],
)
def test_the_header_states_the_options(options: dict[str, Any], stated: str) -> None:
    assert stated in srl_envs.make("nim-v0", **options).header


def test_partners_are_told_that_a_forfeit_costs_all() -> None:
    assert "which pays 0 for all." in srl_envs.make("hanabi_mini-v0").header


@pytest.mark.slow
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("env_id", IDS)
def test_a_seat_that_only_babbles_forfeits_and_ends_at_the_worst(env_id: str, seat: int) -> None:
    env = srl_envs.make(env_id, split="eval")
    if seat >= len(env.possible_agents):
        pytest.skip("a game of one seat")
    worst = 0.0 if env.game.mode == "cooperative" else -1.0
    others = {
        s: srl_envs.make_bot(env_id, "strong", seed=s)
        for s in range(len(env.possible_agents))
        if s != seat
    }
    for seed in range(3):
        record = srl_envs.play(env, {seat: lambda _: BABBLE, **others}, seed=seed)
        assert env.forfeited == (seat,), seed
        assert env.outcomes is not None
        assert env.outcomes[seat] == worst == min(env.outcomes)
        assert record.seed == seed
    env.close()


def test_one_move_of_its_own_is_enough_in_a_short_game() -> None:
    env = srl_envs.make("iterated_dilemma-v0", rounds=2)
    env.reset(seed=0)
    replies = iter([action("A"), "?", "?", "?"])
    while env.agents:
        env.step({"player_0": next(replies), "player_1": action("A")})
    assert env.forfeited == ()


@pytest.mark.parametrize("written", ["**3**", "[3].", "'3'", "  3 ! "])
def test_marks_around_a_clear_move_are_forgiven(written: str) -> None:
    env = srl_envs.make("connect_four-v0")
    env.reset(seed=0)
    (seat,) = env._pending
    *_, infos = env.step({f"player_{seat}": action(written)})
    info = infos[f"player_{seat}"]
    assert (info["invalid"], info["reward_components"]["format"]) == (None, 0)
    assert env.game.parse(env._state, seat, "3") == env.game.parse(env._state, seat, info["played"])


def test_instances_are_divided_for_good_and_about_one_in_four_is_held_out() -> None:
    splits = [split_of_instance("board", n) for n in range(4000)]
    assert splits == [split_of_instance("board", n) for n in range(4000)]
    assert 0.22 < splits.count("eval") / 4000 < 0.28


def test_draws_go_on_until_the_split_owns_one_and_say_when_none_does() -> None:
    for split in SPLITS:
        streams = Streams(*episode_entropy("nim-v0", 0, split, 0))
        number = streams.held(iter(range(1000)).__next__, lambda n: n)
        assert split_of_instance(number) == split
        assert all(split_of_instance(n) != split for n in range(number))
        other = SPLITS[split == "train"]
        other_number = next(n for n in range(1000) if split_of_instance(n) == other)
        with pytest.raises(ConfigError, match=f"belongs to split '{split}'"):
            streams.held([other_number].copy, lambda drawn: drawn[0])
