from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.reasoning.math_problems import Problem
from srl_envs.families.reasoning.solve_and_verify import (
    CORRECTOR,
    DUE,
    SOLVER,
    VERIFIER,
    Reply,
    SolveAndVerify,
    Table,
    read_reply,
)
from srl_envs.families.reasoning.solve_and_verify_bots import part_of, strong_bot
from srl_envs.turns.grammar import action, parse_reply

ENV = "solve_and_verify-v0"
TWO = (Problem("6 * 7 = ?", "42"), Problem("1 / 2 = ?", "1/2"))


def played(*bodies: str, **options: Any) -> tuple[SolveAndVerify, Table]:
    game = SolveAndVerify(problems=2, **options)
    state = Table(TWO)
    for body in bodies:
        (seat,) = game.to_move(state)
        state = game.apply(state, {seat: game.parse(state, seat, body)})
    return game, state


@pytest.mark.parametrize(
    ("part", "body", "reply"),
    [
        (SOLVER, "42", Reply("42")), (SOLVER, "42; 6*7 <b>", Reply("42", "6*7 b")),
        (SOLVER, "42.", Reply("42")), (CORRECTOR, "0.5 !", Reply("0.5")),
        (SOLVER, "Pass", Reply("pass")), (VERIFIER, "Right.", Reply("right")),
        (VERIFIER, "wrong; it is\n43; or so", Reply("wrong", "it is 43; or so")),
        (CORRECTOR, "7/2; why", Reply("7/2")), (SOLVER, "42.\n\u2028\xa0,", Reply("42")),
    ],
)  # fmt: skip
def test_replies_by_hand(part: int, body: str, reply: Reply) -> None:
    assert read_reply(part, body, 200) == reply


@pytest.mark.parametrize(
    ("part", "body"),
    [
        (SOLVER, ""), (SOLVER, "right"), (SOLVER, "6 * 7"), (SOLVER, "; 42"), (VERIFIER, "42"),
        (VERIFIER, ""), (VERIFIER, "right or wrong"), (VERIFIER, "maybe right"), (CORRECTOR, "wrong"),
        (CORRECTOR, "41 42"),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_refused(part: int, body: str) -> None:
    with pytest.raises(IllegalMoveError):
        read_reply(part, body, 200)


def test_notes_are_cut_and_may_be_switched_off() -> None:
    assert len(read_reply(SOLVER, f"1; {'x' * 900}", 50).note) == 50
    assert read_reply(VERIFIER, "wrong; no", 0) == Reply("wrong")
    assert "semicolon" not in SolveAndVerify(note_chars=0).observe(Table(TWO), SOLVER)


def test_only_final_answers_are_paid_and_each_when_it_is_given() -> None:
    game, state = played("41", "wrong; 6 * 7", "42.0")
    assert game.earned(state) == (0.5,) * 3
    assert game.returns(state) is None
    game, state = played("41", "wrong", "42", "0.5", "right", "2")
    assert game.returns(state) == (0.5,) * 3
    assert game.components(state, 0) == {
        "first_right": 0.5,
        "verdict_true": 1.0,
        "final_right": 0.5,
    }
    game, state = played("42", "right", "42", "0.5", "right", "1/2")
    assert game.returns(state) == (1.0,) * 3


def test_shaped_rewards_pay_each_part_for_what_it_is_for() -> None:
    game, state = played("42", "wrong", "pass", "pass", "wrong", "1/2", reward="shaped")
    # first answer .2 + final answer .6 + true verdict .2 of two problems
    assert game.returns(state) == pytest.approx((0.5,) * 3)
    for idle in ("right", "wrong"):  # a true verdict on nothing is worth nothing
        game, state = played("pass", idle, "pass", "1", idle, "2", reward="shaped")
        assert game.returns(state) == (0.0,) * 3
    game, state = played(*("42", "right", "42", "1/2", "right", "1/2"), reward="shaped")
    assert game.returns(state) == pytest.approx((1.0,) * 3)


def test_each_part_reads_those_before_it_and_no_answer_before_its_problem_is_over() -> None:
    game, state = played("41; 6 times 7", "wrong; too small")
    for seat in range(3):
        text = game.observe(state, seat)
        assert 'The solver sent: 41, "6 times 7"\nThe verifier sent: wrong, "too small"\n' in text
        assert "42" not in text.partition("\n\n")[2]
        assert text.endswith(
            "Send the final answer." if seat == CORRECTOR else "Wait for player_2."
        )
    game, state = played("41", "wrong", "42")
    past = (
        "Past 1: 6 * 7 = ? Answer: 42. First answer 41, verdict wrong, final answer 42 (right).\n"
    )
    assert past in game.observe(state, VERIFIER)
    assert game.references(state, SOLVER) == {"answer": "1/2"}
    assert game.references(state, VERIFIER) == {}


@pytest.mark.parametrize("players", [1, 3])
def test_every_example_is_a_legal_reply(players: int) -> None:
    game = SolveAndVerify(players=players)
    tried = 0
    for seat in range(players):
        for line in game.observe(Table(TWO), seat).splitlines():
            part = next(
                (k for k, name in enumerate(DUE_NAMES) if line.endswith(f"the {name}.")), seat
            )
            for example in re.findall(
                r"<action>.*?</action>", line if line.startswith("Reply") else ""
            ):
                body, _ = parse_reply(example, game.max_action_chars)
                assert body is not None
                read_reply(part, body, game.note_chars)
                tried += 1
    assert tried == 6


DUE_NAMES = ("solver", "verifier", "corrector")


def test_a_lone_player_takes_the_parts_in_turn() -> None:
    env: Any = srl_envs.make(ENV, players=1, problems=2)
    env.reset(seed=0)
    parts = []
    while env.agents:
        text = env.text("player_0")
        parts.append(part_of(text))
        assert text.rstrip().endswith(f"{DUE[parts[-1]]}.")
        env.step({"player_0": action("right" if parts[-1] == VERIFIER else "1")})
    assert parts == [0, 1, 2] * 2
    assert env.game.max_turns == srl_envs.make(ENV, problems=2).game.max_turns


@pytest.mark.parametrize("name", ["random", "middle", "strong", "held_out"])
def test_bots_reply_for_their_part_after_a_refusal(name: str) -> None:
    env: Any = srl_envs.make(ENV, problems=1)
    env.reset(seed=0)
    bots = {f"player_{seat}": srl_envs.make_bot(ENV, name, seed=seat) for seat in range(3)}
    while env.agents:
        agent = env.on_move[0]
        env.step({agent: action("no such move")})
        _, _, _, _, infos = env.step({agent: bots[agent](env.text(agent))})
        assert infos[agent]["invalid"] is None
    env.close()


def test_thousands_of_noisy_replies_neither_raise_nor_pay_out_of_range() -> None:
    game = SolveAndVerify(problems=1, reward="shaped")
    rng = np.random.default_rng(0)
    alphabet = list("0123456789/;-. rightwrong<>\n\"'\u0663\ud800")
    state, ended = game.new(Streams(1)), 0
    for turn in range(4000):
        if not game.to_move(state):
            ended += 1
            assert 0.0 <= game.earned(state)[0] <= 1.0
            state = game.new(Streams(turn))
        (seat,) = game.to_move(state)
        noise = "".join(rng.choice(alphabet, int(rng.integers(0, 30))))
        try:
            reply = game.parse(state, seat, noise if turn % 2 else game.sample(state, seat, rng))
        except IllegalMoveError:
            continue
        state = game.apply(state, {seat: reply})
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
    assert ended > 500


def test_rows_of_a_collection_are_asked(tmp_path: Path) -> None:
    rows = [
        {"question": f"What is {k} and {k}?", "answer": f"Twice.\n#### {2 * k}"} for k in range(40)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    env: Any = srl_envs.make(ENV, tasks=f"gsm8k:{path}", problems=2)
    observations, _ = env.reset(seed=1)
    assert re.search(r"Problem 1 of 2: What is (\d+) and \1\?", observations["player_0"]["text"])
    assert env.game.rows_each == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"players": 2}, "players=2; give 1 or 3"),
        ({"note_chars": 401}, "0 to 400"),
        ({"reward": "x"}, "sparse, shaped"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        SolveAndVerify(**options)


def test_bots_stand_in_their_order() -> None:
    env = srl_envs.make(ENV)
    paid = {}
    for name in ("strong", "middle", "random"):
        outcomes = []
        for seed in range(30):
            bots = {seat: srl_envs.make_bot(ENV, name, seed=3 * seed + seat) for seat in range(3)}
            outcomes.append(srl_envs.play(env, bots, seed=seed).outcomes[0])
        paid[name] = sum(outcomes) / len(outcomes)
    assert paid["strong"] == 1.0 > paid["middle"] > 0.5 > 0.1 > paid["random"]


@pytest.mark.parametrize(
    ("sent", "verdict"),
    [
        ("1,234", "right"),
        ('1,234, "2 * 617, or so"', "right"),
        (r"\frac{2468}{2}", "right"),
        ("1.234e3", "right"),
        ("234", "wrong"),
        ('1, "1,234"', "wrong"),
        ("pass", "wrong"),
    ],
)
def test_a_verifier_reads_every_notation_that_the_game_takes(sent: str, verdict: str) -> None:
    text = f"Problem 1 of 1: 2 * 617 = ?\nThe solver sent: {sent}\nSend your verdict."
    assert strong_bot(np.random.default_rng(0))(text) == action(verdict)
