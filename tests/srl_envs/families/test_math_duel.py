import json
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.reasoning import math_duel_bots
from srl_envs.families.reasoning.math_duel import (
    LARGEST_GAP,
    PASS,
    Duel,
    MathDuel,
    Move,
    lead,
    parse_move,
    random_body,
    round_points,
)
from srl_envs.families.reasoning.math_duel_bots import Bot, held_out_bot, solve, strong_bot
from srl_envs.families.reasoning.math_problems import (
    FAMILIES,
    Problem,
    draw_problem,
    problem_key,
)

BOTS = ["random_bot", "weak_bot", "middle_bot", "strong_bot", "held_out_bot"]
MOVES = st.builds(
    lambda answer, stake: Move(str(answer), stake), st.integers(-3, 3), st.integers(1, 3)
) | st.just(PASS)


def streams(seed: int) -> Streams:
    return Streams(seed)


def body_of(reply: str) -> str:
    (body,) = re.findall("<action>(.*?)</action>", reply)
    return str(body)


def play(game: MathDuel, seed: int, bots: tuple[Bot, Bot]) -> Duel:
    state = game.new(streams(seed))
    while game.to_move(state):
        bodies = [body_of(bot(game.observe(state, seat))) for seat, bot in enumerate(bots)]
        state = game.apply(state, {s: game.parse(state, s, body) for s, body in enumerate(bodies)})
    return state


# --- payoffs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "points"),
    [
        ((Move("7", 3), Move("8", 3)), (4, -3)),
        ((Move("7", 3), Move("14/2", 1)), (3, 1)),
        ((Move("7", 2), PASS), (3, 0)),
        ((Move("8", 1), Move("6", 2)), (-1, -2)),
        ((PASS, PASS), (0, 0)),
    ],
)
def test_points_by_hand(moves: tuple[Move, Move], points: tuple[int, int]) -> None:
    assert round_points(moves, "7") == points


def test_answers_are_exact() -> None:
    moves = (Move("0.3333333333", 1), Move("2/6", 1))
    assert round_points(moves, "1/3") == (-1, 2)


@given(MOVES, MOVES)
def test_swapping_seats_swaps_points(first: Move, second: Move) -> None:
    assert round_points((first, second), "1") == round_points((second, first), "1")[::-1]


@given(st.lists(st.tuples(MOVES, MOVES), min_size=1, max_size=6))
def test_outcome_is_zero_sum_antisymmetric_and_bounded(rounds: list[tuple[Move, Move]]) -> None:
    game = MathDuel(problems=len(rounds))
    problems = tuple(Problem(f"{i} - {i} + 1 = ?", "1") for i in range(len(rounds)))
    outcome = game.returns(Duel(problems, tuple(rounds)))
    swapped = game.returns(Duel(problems, tuple((b, a) for a, b in rounds)))

    assert outcome is not None
    assert swapped == outcome[::-1]
    assert sum(outcome) == 0.0
    assert -1.0 <= outcome[0] <= 1.0


def test_the_largest_gap_is_reachable() -> None:
    duel = Duel((Problem("3 + 4 = ?", "7"),), ((Move("7", 3), Move("8", 3)),))
    assert MathDuel(problems=1).returns(duel) == (1.0, -1.0)
    assert LARGEST_GAP == 7


def test_five_wins_by_four_to_minus_three_make_thirty_five() -> None:
    game = MathDuel()
    duel = game.new(streams(0))
    wrong, right = Move("1000001", 1), [Move(p.answer, 2) for p in duel.problems]
    duel = duel._replace(rounds=tuple((move, wrong) for move in right))
    assert game.returns(duel) == pytest.approx((20 / 35, -20 / 35))


# --- actions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "move"),
    [
        ("42; 1", Move("42", 1)),
        (" -7/2 ;3\n", Move("-7/2", 3)),
        ("1,234;2", Move("1,234", 2)),
        ("PASS", PASS),
        ("Answer: 42; stake: 1", Move("42", 1)),
        ("x = -3, stake 2", Move("-3", 2)),
        ("the answer is 7; 2 points", Move("7", 2)),
        ("**42**; 3", Move("42", 3)),
    ],
)
def test_legal_bodies(body: str, move: Move) -> None:
    assert parse_move(body) == move


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("42", "semicolon"),
        ("42 1", "semicolon"),
        ("42, 1", "semicolon"),
        ("pass; 1", "one number"),
        ("stake 2; 3", "one number"),
        ("42; 4", "stake must be 1 to 3"),
        ("42; 0", "stake must be 1 to 3"),
        ("42; 1; 2", "semicolon"),
        ("7 * 8; 3", "one number"),
        ("56 or 57; 3", "one number"),
        ("nan; 3", "one number"),
        ("; 3", "one number"),
        ("9" * 25 + "; 1", "one number"),
        ("", "semicolon"),
    ],
)
def test_illegal_bodies_say_what_to_do(body: str, hint: str) -> None:
    with pytest.raises(IllegalMoveError, match=hint) as error:
        parse_move(body)
    assert "42; 1" in str(error.value)


@given(st.text(max_size=200) | st.from_regex(r"[-\d/ ]*;[ \d]*"))
def test_any_text_is_a_move_or_illegal(body: str) -> None:
    try:
        move = parse_move(body)
    except IllegalMoveError:
        return
    assert parse_move(str(move)) == move
    assert str(move).isascii()


@given(st.integers(0, 2**32))
def test_random_bodies_are_legal(seed: int) -> None:
    game = MathDuel()
    state = game.new(streams(0))
    body = game.sample(state, 0, np.random.default_rng(seed))
    assert body == random_body(np.random.default_rng(seed))
    parse_move(body)
    assert len(body) <= game.max_action_chars


def test_the_fallback_passes() -> None:
    game = MathDuel()
    state = game.new(streams(0))
    assert game.parse(state, 0, game.fallback(state, 0)) == PASS


# --- problems -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("difficulty", range(1, 6))
def test_every_generator_agrees_with_the_solver(family: str, difficulty: int) -> None:
    for seed in range(300):
        problem = draw_problem(np.random.default_rng(seed), family, difficulty)
        assert solve(problem.text) == Fraction(problem.answer), problem.text
        parse_move(f"{problem.answer}; 1")
        assert len(problem.text) <= 120


@pytest.mark.parametrize("family", FAMILIES)
def test_the_easiest_answers_are_small(family: str) -> None:
    answers = [
        abs(Fraction(draw_problem(np.random.default_rng(seed), family, 1).answer))
        for seed in range(200)
    ]
    assert max(answers) <= 29
    assert len(set(answers)) >= 5


@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(1, 5))
def test_no_problem_comes_twice(seed: int, problems: int, difficulty: int) -> None:
    game = MathDuel(problems=problems, difficulty=difficulty, families=["counting"])
    state = game.new(streams(seed))
    assert len({problem.text for problem in state.problems}) == problems


def test_every_family_appears_before_one_repeats() -> None:
    chosen = ["arithmetic", "fractions", "counting"]
    state = MathDuel(problems=3, difficulty=1, families=chosen).new(streams(3))
    starts = sorted(problem.text[:3] for problem in state.problems)
    assert sum(text == "How" for text in starts) == 1


def test_problems_depend_on_the_instance_stream_alone() -> None:
    game = MathDuel()
    used = []

    class Watched(Streams):
        def draws(self, name: str) -> Draws:
            used.append(name)
            return super().draws(name)

    assert game.new(Watched(7)) == game.new(streams(7)) != game.new(streams(8))
    assert used == ["instance"]


def test_a_problem_is_the_same_in_any_order_and_with_any_signs() -> None:
    same = [
        ("3 + 4 = ?", "4 + 3 = ?"),
        ("4 - 3 = ?", "3 + 4 = ?"),
        ("2x - 3y = 5, 4x + 7y = -6. x = ?", "4x + 7y = -6, 2x - 3y = 5. x = ?"),
        ("all the letters of AABBBC?", "all the letters of ABBCCC?"),
    ]
    assert all(problem_key(a) == problem_key(b) for a, b in same)
    other = ["3 + 5 = ?", "13 + 4 = ?", "3/4 + 1 = ?", "3 mod 4 = ?", "letters of AABBC?"]
    assert len({problem_key(text) for text in (*other, "3 + 4 = ?")}) == 6


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("difficulty", range(1, 6))
def test_no_problem_of_eval_occurs_in_train(family: str, difficulty: int) -> None:
    game = MathDuel(problems=2, families=[family], difficulty=difficulty)
    keys = [
        {
            problem_key(problem.text)
            for seed in range(100)
            for problem in game.new(Streams(0, 0, split, seed)).problems
        }
        for split in (0, 1)
    ]
    assert all(keys)
    assert not keys[0] & keys[1]


@pytest.mark.parametrize(
    "options",
    [
        {"problems": 0},
        {"problems": 11},
        {"problems": True},
        {"difficulty": 6},
        {"difficulty": "hard"},
        {"families": []},
        {"families": "arithmetic"},
        {"families": ["counting", "counting"]},
    ],
)
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        MathDuel(**options)  # type: ignore[arg-type]


def test_a_misspelt_family_is_guessed() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'fractions'"):
        MathDuel(families=["fraction"])


# --- observations -------------------------------------------------------------------------------


def test_observations_start_with_the_same_rules() -> None:
    game = MathDuel(difficulty=5, problems=10)
    state = play(
        game, 0, (strong_bot(np.random.default_rng(0)), held_out_bot(np.random.default_rng(1)))
    )
    start, end = game.observe(state._replace(rounds=()), 1), game.observe(state, 1)
    shared = start[: start.index("Score:")]
    assert end.startswith(shared)
    assert "<action>42; 1</action>" in shared
    assert "Payoff: (your points - the opponent's) / 70." in shared
    assert "You are player_1." in shared
    assert len(start) < 700
    assert len(end) <= game.max_observation_chars
    for example in re.findall("<action>(.*?)</action>", shared):
        parse_move(example)


def test_both_answers_and_scores_are_seen_after_a_problem() -> None:
    game = MathDuel()
    state = game.new(streams(1))
    answer = state.problems[0].answer
    state = game.apply(state, {0: Move(answer, 3), 1: Move("1000001", 2)})
    assert f"Answer: {answer}. You: {answer}; 3 (+4). Opponent: 1000001; 2 (-2)." in game.observe(
        state, 0
    )
    assert "Score: you -2, opponent 4." in game.observe(state, 1)


def test_coming_problems_and_their_answers_are_hidden() -> None:
    game = MathDuel()
    state = game.new(streams(2))
    first = state.problems[0]
    other = state._replace(problems=(first, *game.new(streams(9)).problems[1:]))
    assert game.observe(state, 0) == game.observe(other, 0)
    secret = state._replace(problems=(first._replace(answer="999983"), *state.problems[1:]))
    assert game.observe(state, 0) == game.observe(secret, 0)


@given(st.integers(0, 10**6))
def test_states_survive_json(seed: int) -> None:
    game = MathDuel(difficulty=3)
    rng = np.random.default_rng(seed)
    state = game.new(streams(seed))
    while True:
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        seats = game.to_move(state)
        if not seats:
            break
        state = game.apply(
            state, {s: game.parse(state, s, game.sample(state, s, rng)) for s in seats}
        )
    assert game.returns(game.decode(game.encode(state))) == game.returns(state)


def test_components_by_hand() -> None:
    problems = tuple(Problem(f"{i} + 0 = ?", str(i)) for i in range(4))
    moves = [Move("0", 3), PASS, Move("9", 2), Move("3", 1)]
    duel = Duel(problems, tuple((move, PASS) for move in moves))
    expected = {"correct": 0.5, "passed": 0.25, "staked": 1.5}
    assert MathDuel(problems=4).components(duel, 0) == expected


# --- bots ---------------------------------------------------------------------------------------


def mean_outcome(first: str, second: str, difficulty: int = 3, pairs: int = 60) -> float:
    game = MathDuel(difficulty=difficulty)
    total = 0.0
    for seed in range(pairs):
        for seats in ((0, 1), (1, 0)):
            rngs = [np.random.default_rng([seed, i]) for i in range(2)]
            bots = [
                getattr(math_duel_bots, name)(rng)
                for name, rng in zip((first, second), rngs, strict=True)
            ]
            outcome = game.returns(play(game, seed, (bots[seats[0]], bots[seats[1]])))
            assert outcome is not None
            total += outcome[seats.index(0)]
    return total / (2 * pairs)


@pytest.mark.parametrize("name", BOTS)
def test_bots_reply_with_one_legal_action(name: str) -> None:
    bot = getattr(math_duel_bots, name)(np.random.default_rng(0))
    for difficulty in range(1, 6):
        game = MathDuel(difficulty=difficulty)
        state = game.new(streams(difficulty))
        for _ in range(20):
            game.parse(state, 0, body_of(bot(game.observe(state, 0))))


@pytest.mark.parametrize("name", BOTS)
def test_bots_answer_texts_they_cannot_read(name: str) -> None:
    bot = getattr(math_duel_bots, name)(np.random.default_rng(0))
    for text in ("", "Problem 1 of 1: what is love?", "Problem 1 of 1: 3 + = ?"):
        parse_move(body_of(bot(text)))


def test_bots_are_ordered_by_strength() -> None:
    assert mean_outcome("strong_bot", "random_bot") > 0.8
    assert mean_outcome("strong_bot", "held_out_bot") > 0.05
    assert mean_outcome("held_out_bot", "middle_bot") > 0.05
    assert mean_outcome("middle_bot", "weak_bot") > 0.05
    assert mean_outcome("weak_bot", "random_bot") > 0.05


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("strong_bot", 0.0, 0.0), ("middle_bot", 0.25, 0.35), ("weak_bot", 0.55, 0.65)],
)
def test_solving_bots_err_as_often_as_they_say(name: str, low: float, high: float) -> None:
    bot = getattr(math_duel_bots, name)(np.random.default_rng(0))
    wrong = sum(
        parse_move(body_of(bot("Problem 1 of 1: 3 + 4 = ?"))).answer != "7" for _ in range(1000)
    )
    assert low <= wrong / 1000 <= high


def test_the_held_out_bot_stakes_more_when_it_is_right() -> None:
    bot = held_out_bot(np.random.default_rng(0))
    moves = [parse_move(body_of(bot("Problem 1 of 1: 3 + 4 = ?"))) for _ in range(1000)]
    right = [move.stake for move in moves if move.answer == "7"]
    wrong = [move.stake for move in moves if move.answer not in ("7", None)]
    assert 50 < len(wrong) < 250
    assert 100 < moves.count(PASS) < 350
    assert np.mean(right) > np.mean(wrong) + 0.5


def test_the_lead_in_a_text_is_the_outcome_so_far() -> None:
    env = srl_envs.make("math_duel-v0", problems=3, difficulty=1)
    observations, _ = env.reset(seed=3)
    seats = env.possible_agents
    solve = strong_bot(np.random.default_rng(0))
    assert lead(observations[seats[0]]["text"], 0) == 0
    for number in (1, 2):
        replies = {
            seats[0]: solve(observations[seats[0]]["text"]),
            seats[1]: "<action>pass</action>",
        }
        observations, *_ = env.step(replies)
        assert lead(observations[seats[0]]["text"], 0) == pytest.approx(4 * number / 21)
        assert lead(observations[seats[1]]["text"], 1) == pytest.approx(-4 * number / 21)
    assert lead("Score: you 3", 0) == 0


def test_one_player_is_paid_the_share_of_right_answers_and_a_forfeit_is_the_worst() -> None:
    game = MathDuel(problems=2, players=1, difficulty=1)
    assert (game.seats, game.forfeit(Duel(()), 0)) == (1, (-1.0,))
    problems = (Problem("1 + 1", "2"), Problem("2 + 2", "4"))
    state = Duel(problems)
    for body in ("**2**", "5"):
        assert game.to_move(state) == (0,)
        state = game.apply(state, {0: game.parse(state, 0, body)})
    assert game.returns(state) == (0.0,)
    assert game.decode(game.encode(state)) == state
    assert "(right)" in game.observe(state, 0)
    assert "opponent" not in game.observe(state, 0)
    with pytest.raises(IllegalMoveError, match="Write one number"):
        game.parse(state, 0, "seven")
