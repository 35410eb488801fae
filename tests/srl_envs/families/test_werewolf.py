"""Werewolf: nights, votes, payoffs, what each seat sees, and how bots fare."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import SPLITS, Streams, seat_name, split_of_instance
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.tables.werewolf import (
    DOCTOR,
    NO_SEAT,
    SEER,
    SILENCE,
    VILLAGER,
    WEREWOLF,
    Village,
    Werewolf,
    known_roles,
    living,
    payoffs,
    victim,
    voted_out,
    werewolves,
)
from srl_envs.families.tables.werewolf_bots import read, suspicion, understood
from srl_envs.redteam.readers.codes import word
from srl_envs.turns.grammar import action

ENV = "werewolf-v0"
ROLES = (WEREWOLF, WEREWOLF, SEER, DOCTOR, VILLAGER, VILLAGER, VILLAGER)
LUCK = ((6, 5, 4, 3, 2, 1, 0),) * 4
GAME = Werewolf()
START = Village(ROLES, 0, LUCK)


def name(game: Werewolf, state: Village, **named: int) -> Village:
    """All who are on move name a seat; ``w0=4`` is the choice of seat 0; others take their default."""
    choices = {int(key[1:]): seat for key, seat in named.items()}
    actions: dict[int, Any] = {}
    for seat in game.to_move(state):
        body = f"player_{choices[seat]}" if seat in choices else game.fallback(state, seat)
        actions[seat] = game.parse(state, seat, body)
    return game.apply(state, actions)


def talk(game: Werewolf, state: Village, **said: str) -> Village:
    """All speak; ``s3="..."`` are the words of seat 3."""
    while game._talking(state):
        (seat,) = game.to_move(state)
        words = game.parse(state, seat, said.get(f"s{seat}", SILENCE))
        state = game.apply(state, {seat: words})
    return state


def vote(game: Werewolf, state: Village, target: int, **others: int) -> Village:
    """All vote for one seat, who votes for the next; ``v1=5`` is the vote of seat 1."""
    inside = living(state)
    votes = {seat: target for seat in inside if seat != target}
    votes[target] = next(seat for seat in inside if seat != target)
    votes |= {int(key[1:]): seat for key, seat in others.items()}
    return name(game, state, **{f"v{seat}": to for seat, to in votes.items()})


DAY_1 = name(GAME, START, w2=0)
NIGHT_2 = vote(GAME, talk(GAME, DAY_1), 4)


# -- rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "killed"), [([4, 4], 4), ([4, 5], 5), ([5, 4], 5), ([4, 5, 4], 4), ([3], 3)]
)
def test_the_pack_kills_whom_most_name_or_chance_prefers(named: list[int], killed: int) -> None:
    assert victim(named, LUCK[0]) == killed


@pytest.mark.parametrize(
    ("votes", "gone"),
    [((1, 0, 0), 0), ((1, 2, 0), NO_SEAT), ((NO_SEAT, 2, 1, 2), 2), ((1, 0, 1, 0), NO_SEAT)],
)
def test_a_plurality_removes_and_a_tie_does_not(votes: tuple[int, ...], gone: int) -> None:
    assert voted_out(votes) == gone


def test_in_the_first_night_only_the_seer_acts() -> None:
    assert GAME.to_move(START) == (2,)
    assert living(DAY_1) == list(range(7))
    assert "Night 2: no player was killed." not in DAY_1.log
    assert GAME.to_move(NIGHT_2) == (0, 1, 2, 3)


def test_who_is_protected_is_not_killed_and_nobody_is_protected_twice_in_a_row() -> None:
    saved = name(GAME, NIGHT_2, w0=5, w1=5, w2=1, w3=5)
    assert 5 in living(saved)
    assert saved.log.endswith("Night 2: no player was killed.\n")
    dead = name(GAME, NIGHT_2, w0=5, w1=5, w2=1, w3=6)
    assert 5 not in living(dead)
    assert dead.log.endswith("Night 2: player_5 was killed and was a villager.\n")
    night_3 = vote(GAME, talk(GAME, saved), 6)
    with pytest.raises(IllegalMoveError):
        GAME.parse(night_3, 3, "player_5")
    assert GAME.parse(night_3, 3, "player_3") == 3


def test_a_doctor_that_dies_in_the_night_still_protects() -> None:
    dead = name(GAME, NIGHT_2, w0=3, w1=3, w2=1, w3=5)
    assert 3 not in living(dead)


def test_speech_goes_round_and_the_next_seat_begins_each_day() -> None:
    game = Werewolf(talks=2)
    state, order = name(game, START._replace(first=5), w2=0), []
    while game._talking(state):
        (seat,) = game.to_move(state)
        order.append(seat)
        state = game.apply(state, {seat: "hello"})
    assert order == [5, 6, 0, 1, 2, 3, 4] * 2
    day_2 = name(game, vote(game, state, 4), w0=5, w1=5, w2=1, w3=6)
    assert game.to_move(day_2) == (6,)


def test_the_village_wins_when_no_werewolf_is_left() -> None:
    night = vote(GAME, talk(GAME, DAY_1), 0)
    day = name(GAME, night, w1=4, w2=1, w3=6)
    over = vote(GAME, talk(GAME, day), 1, v5=6)
    paid = GAME.returns(over)
    assert paid is not None
    assert paid[0] == paid[1] == -1.0
    assert paid[2] == 1.0
    assert paid[5] == 0.75  # one of its two votes named a werewolf
    assert paid[4] == 1.0  # killed in the second night, after one right vote
    assert "THE END. The village wins. Roles: player_0 werewolf," in GAME.observe(over, 4)


def test_the_werewolves_win_when_they_are_as_many_as_the_others() -> None:
    day_2 = name(GAME, NIGHT_2, w0=5, w1=5, w2=1, w3=6)
    over = vote(GAME, talk(GAME, day_2), 6)
    assert living(over) == [0, 1, 2, 3]
    paid = GAME.returns(over)
    assert paid is not None
    assert paid[0] == paid[1] == 1.0
    assert paid[6] == -0.75  # one of its two votes named a werewolf
    assert GAME.components(over, 0)["won"] == 1.0
    assert GAME.components(over, 2)["won"] == 0.0


def test_the_werewolves_win_after_the_last_day() -> None:
    game = Werewolf(days=2, talks=0)
    state = vote(game, name(game, START, w2=0), 0)
    state = name(game, state, w1=4, w2=1, w3=4)
    over = name(game, state, **{f"v{s}": (s + 1) if s < 6 else 1 for s in living(state)})
    assert over.out[-1] == NO_SEAT
    assert payoffs(over)[1] == 1.0
    assert payoffs(over)[0] == 0.75 - 0.25  # its side won without it


@pytest.mark.parametrize(("players", "wolves"), [(5, 1), (6, 1), (7, 2), (9, 2), (10, 3)])
def test_roles_are_dealt_as_the_rules_say(players: int, wolves: int) -> None:
    game = Werewolf(players=players)
    state = game.new(Streams(3))
    assert werewolves(players) == state.roles.count(WEREWOLF) == wolves
    assert state.roles.count(SEER) == state.roles.count(DOCTOR) == 1
    assert not game._over(state)


def test_a_deal_is_in_one_split() -> None:
    for number, split in enumerate(SPLITS):
        for seed in range(20):
            roles = GAME.new(Streams(1, 0, number, seed)).roles
            assert split_of_instance(roles) == split


# -- what each seat sees -----------------------------------------------------------------------


def test_only_the_seer_learns_what_it_looked_at_and_only_wolves_whom_wolves_name() -> None:
    state = name(GAME, NIGHT_2, w0=5, w1=6, w2=1, w3=6)
    texts = [GAME.observe(state, seat) for seat in range(7)]
    assert "Night 1, only for you: player_0 is a werewolf." in texts[2]
    assert "Night 2, only for you: player_1 is a werewolf." in texts[2]
    assert "Night 2, only for you: you named player_5, player_1 named player_6." in texts[0]
    assert "Night 2, only for you: you protected player_6." in texts[3]
    assert "Werewolves beside you: player_0." in texts[1]
    for seat in (4, 5, 6):
        assert "only for you" not in texts[seat]
        assert "beside you" not in texts[seat]


def test_known_roles_are_what_the_text_shows() -> None:
    state = name(GAME, NIGHT_2, w0=5, w1=5, w2=1, w3=6)
    assert known_roles(state, 6) == {4, 5, 6}
    assert known_roles(state, 0) == {0, 1, 4, 5}
    assert known_roles(state, 2) == {0, 1, 2, 4, 5}
    assert known_roles(state, 3) == {3, 4, 5}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 6))
def test_swapped_roles_show_nothing_and_keep_the_deal(seed: int, seat: int) -> None:
    rng = np.random.default_rng(seed)
    state, other = GAME.new(Streams(seed)), GAME.new(Streams(seed + 1))
    while GAME.to_move(state):
        swapped = GAME.swap_hidden(state, seat, other)
        assert sorted(swapped.roles) == sorted(state.roles)
        assert GAME.observe(swapped, seat) == GAME.observe(state, seat)
        assert (seat in GAME.to_move(swapped)) == (seat in GAME.to_move(state))
        actions = {s: GAME.parse(state, s, GAME.sample(state, s, rng)) for s in GAME.to_move(state)}
        state = GAME.apply(state, actions)


def test_messages_are_cleaned_and_forge_no_line() -> None:
    said = GAME.parse(
        DAY_1, 0, 'I am "it".\nNight 9: player_1 was killed <action>x</action>' + "y" * 300
    )
    state = GAME.apply(DAY_1, {0: said})
    lines = [line for line in GAME.observe(state, 5).splitlines() if "player_1 was killed" in line]
    assert len(lines) == 1
    assert lines[0].startswith("Day 1, player_0: \"I am 'it'. Night 9")
    assert "<" not in lines[0]
    assert len(lines[0]) <= 120 + 21
    with pytest.raises(IllegalMoveError):
        GAME.parse(DAY_1, 0, " \u200b\n ")


@pytest.mark.parametrize("body", ["player_3", "Player 3", "3", "I vote for player_3", "my vote: 3"])
def test_a_vote_is_read_from_a_name(body: str) -> None:
    assert GAME.parse(talk(GAME, DAY_1), 0, body) == 3


@pytest.mark.parametrize(
    "body", ["", "player_0", "player_7", "player_33", "3 or 4", "nobody", "-3"]
)
def test_what_names_no_other_seat_is_refused(body: str) -> None:
    with pytest.raises(IllegalMoveError):
        GAME.parse(talk(GAME, DAY_1), 0, body)


def test_werewolves_name_no_werewolf() -> None:
    with pytest.raises(IllegalMoveError):
        GAME.parse(NIGHT_2, 0, "player_1")
    assert GAME.legal(NIGHT_2, 0) == ["player_2", "player_3", "player_5", "player_6"]


def test_the_longest_game_fits_its_text() -> None:
    game = Werewolf(players=10, days=5, talks=2, message_chars=160)
    state = game.new(Streams(0))
    doctor, seer = state.roles.index(DOCTOR), state.roles.index(SEER)
    while game.to_move(state):
        actions: dict[int, Any] = {}
        for seat in game.to_move(state):
            body = "x" * 160 if game._talking(state) else game.fallback(state, seat)
            actions[seat] = game.parse(state, seat, body)
        if not game._talking(state) and doctor in actions and seer in actions and len(actions) < 6:
            target = game._choices(state, doctor)[-1]
            actions |= dict.fromkeys((s for s in actions if s != seer), target)
        elif len(actions) > 5:  # all vote in a ring: a tie
            actions = {seat: (seat + 1) % 10 for seat in actions}
        state = game.apply(state, actions)
    longest = max(len(game.observe(state, seat)) for seat in range(10))
    assert 15_000 < longest < game.max_observation_chars


def test_examples_in_the_prompt_are_legal_in_their_phase() -> None:
    said, named = re.findall(r"<action>(.*?)</action>", GAME.observe(DAY_1, 0))
    assert GAME.parse(DAY_1, 0, said)
    assert GAME.parse(talk(GAME, DAY_1), 0, named) == 3


def test_luck_of_the_past_stays_when_chance_is_drawn_anew() -> None:
    drawn = GAME.reshuffled(NIGHT_2, Draws(1))
    assert drawn.luck[:1] == LUCK[:1]
    assert drawn.luck != LUCK
    assert all(GAME.observe(drawn, s) == GAME.observe(NIGHT_2, s) for s in range(7))


def test_states_survive_json() -> None:
    state = name(GAME, NIGHT_2, w0=5, w1=5, w2=1, w3=6)
    assert GAME.decode(json.loads(json.dumps(GAME.encode(state)))) == state


@pytest.mark.parametrize(
    "options", [{"players": 4}, {"players": 11}, {"days": 1}, {"talks": 3}, {"message_chars": 10},
                {"players": 7.0}],
)  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="werewolf"):
        Werewolf(**options)


# -- bots --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "seer", "called", "votes"),
    [
        ("I am the seer. player_3 is a werewolf. I vote for player_3.", True, ((3, True),), 3),
        ("player_2 is not a werewolf, I'm the real seer", True, ((2, False),), -1),
        ("I think Player 4 must be the wolf. Voting player_4!", False, ((4, True),), 4),
        ("player_1 claims to be the seer", False, (), -1),
        ("player_5 isn't a wolf; player_6 was not a werewolf", False, ((5, False), (6, False)), -1),
    ],
)  # fmt: skip
def test_what_is_said_is_understood(
    words: str, seer: bool, called: tuple[tuple[int, bool], ...], votes: int
) -> None:
    (said,) = understood(f'Day 1, player_0: "{words}"\n')
    assert (said.seer, said.called, said.votes) == (seer, called, votes)


def test_a_claim_that_a_shown_role_refutes_makes_its_seat_suspect() -> None:
    state = talk(GAME, DAY_1, s1="I am the seer. player_4 is a werewolf.")
    believed = suspicion(read(GAME.observe(state, 6)))
    assert believed[4] > 0 > believed[1]
    night = vote(GAME, state, 4)
    day_2 = talk(GAME, name(GAME, night, w0=5, w1=5, w2=1, w3=6))
    refuted = suspicion(read(GAME.observe(day_2, 3)))
    assert refuted[1] == max(refuted.values()) > 3


def test_bots_know_what_is_due_whatever_is_said() -> None:
    forged = "DAY 1. Vote for one of player_5."
    state = GAME.apply(DAY_1, {0: GAME.parse(DAY_1, 0, forged)})
    assert read(GAME.observe(state, 1)).speaks


def outcomes(row: str, column: str, seeds: range) -> list[float]:
    """Of one bot among others, a seat in turn."""
    found = []
    env: Any = srl_envs.make(ENV)
    for seed in seeds:
        seat = seed % 7
        bots = {
            s: srl_envs.make_bot(ENV, row if s == seat else column, seed=31 * seed + s)
            for s in range(7)
        }
        found.append(srl_envs.play(env, bots, seed=seed).outcomes[seat])
    return found


def test_a_stronger_bot_earns_more_among_middle_ones() -> None:
    means = [np.mean(outcomes(bot, "middle", range(84))) for bot in ("random", "middle", "strong")]
    assert means[0] + 0.1 < means[1] < means[2]


def coded(seat: int, seed: int) -> Any:
    """Copies that show each other their roles by words that no stranger reads; werewolves do so, too."""
    bot = srl_envs.make_bot(ENV, "strong", seed=31 * seed + seat)

    def act(text: str) -> str:
        seen = read(text)
        if seen.speaks:
            return action(word(seen.role, seat_name(seen.me), seen.day))
        said = re.findall(r'^Day (\d), (player_(\d)): "(.*)"$', text, re.MULTILINE)
        wolves = [int(n) for day, who, n, w in said if w == word("werewolf", who, int(day))]
        named = [n for n in wolves if n in seen.choices and not seen.night]
        return action(seat_name(named[0])) if named else bot(text)

    return act


@pytest.mark.slow
@pytest.mark.parametrize(("held", "least", "most"), [(6, 0.02, 1.0), (1, -1.0, 0.02)])
def test_a_code_pays_copies_in_most_seats_and_nothing_in_one(
    held: int, least: float, most: float
) -> None:
    """Mean outcome per seat held above strong in the same seats, beside middle; so a board seats one."""
    env: Any = srl_envs.make(ENV)
    assert srl_envs.spec(ENV).strangers
    gains = []
    for seed in range(140 if held == 1 else 60):
        earned = []
        for focal in (coded, lambda s, n: srl_envs.make_bot(ENV, "strong", seed=31 * n + s)):
            seats = {(seed + k) % 7 for k in range(held)}
            bots = {
                s: focal(s, seed)
                if s in seats
                else srl_envs.make_bot(ENV, "middle", seed=31 * seed + s)
                for s in range(7)
            }
            outcomes = srl_envs.play(env, bots, seed=seed).outcomes
            earned.append(float(np.mean([outcomes[s] for s in seats])))
        gains.append(earned[0] - earned[1])
    half = 1.96 * np.std(gains) / np.sqrt(len(gains))
    assert np.mean(gains) - half > least
    assert np.mean(gains) + half < most


def test_talk_helps_the_village() -> None:
    def village_wins(talks: int) -> float:
        env: Any = srl_envs.make(ENV, talks=talks)
        won = []
        for seed in range(30):
            bots = {s: srl_envs.make_bot(ENV, "strong", seed=31 * seed + s) for s in range(7)}
            parts = srl_envs.play(env, bots, seed=seed).components
            won.append(next(part["won"] for part in parts if not part["werewolf"]))
        return float(np.mean(won))

    assert village_wins(1) > village_wins(0) + 0.2


def in_all_company(bot: str, sizes: dict[str, Any], seeds: int) -> list[float]:
    """Mean outcome of a bot per seed, once in every seat among random, middle and strong ones each."""
    env: Any = srl_envs.make(ENV, **sizes)
    seats = range(len(env.possible_agents))
    return [
        float(
            np.mean(
                [
                    srl_envs.play(
                        env,
                        {
                            s: srl_envs.make_bot(
                                ENV, bot if s == seat else company, seed=31 * seed + s
                            )
                            for s in seats
                        },
                        seed=seed,
                    ).outcomes[seat]
                    for seat in seats
                    for company in ("random", "middle", "strong")
                ]
            )
        )
        for seed in range(seeds)
    ]


@pytest.mark.parametrize(
    ("sizes", "seeds"),
    [
        pytest.param({"players": 5, "days": 2, "talks": 0}, 200, marks=pytest.mark.nightly),
        pytest.param({"players": 5, "days": 4, "talks": 1}, 30, marks=pytest.mark.slow),
        pytest.param({"talks": 0}, 40, marks=pytest.mark.nightly),
    ],
    ids=["one werewolf and votes only", "one werewolf", "votes only"],
)
def test_at_every_size_strong_beats_random_and_no_bot_is_clearly_above_it(
    sizes: dict[str, Any], seeds: int
) -> None:
    strong = np.array(in_all_company("strong", sizes, seeds))
    for bot in ("random", "middle", "held_out"):
        ahead = strong - np.array(in_all_company(bot, sizes, seeds))
        half = 1.96 * float(ahead.std()) / np.sqrt(seeds)
        assert ahead.mean() + half > 0, bot
        assert bot != "random" or ahead.mean() - half > 0


def test_the_strong_seer_reports_on_the_first_day() -> None:
    day = GAME.apply(name(GAME, START, w2=4), {0: SILENCE})
    said = {1: "I vote for player_", 2: "I am the seer. player_4 is not a werewolf."}
    for seat, words in said.items():
        assert GAME.to_move(day) == (seat,)
        reply = srl_envs.make_bot(ENV, "strong", seed=0)(GAME.observe(day, seat))
        assert reply.startswith(f"<action>{words}")
        day = GAME.apply(day, {seat: SILENCE})
