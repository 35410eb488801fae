import json
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.board.connect_four import ConnectFour, Position, has_line
from srl_envs.families.board.connect_four_bots import read_board

GAMES = st.tuples(st.integers(4, 9), st.integers(4, 9), st.integers(3, 5)).filter(
    lambda sizes: sizes[2] <= max(sizes[:2])
)


def line_on_grid(grid: list[str], piece: str, k: int) -> bool:
    """Every start, every direction, every cell."""
    rows, cols = len(grid), len(grid[0])
    return any(
        all(
            0 <= r + i * dr < rows and 0 <= c + i * dc < cols and grid[r + i * dr][c + i * dc] == piece
            for i in range(k)
        )
        for r, c, (dr, dc) in product(range(rows), range(cols), [(0, 1), (1, 0), (1, 1), (1, -1)])
    )  # fmt: skip


def grid_of(state: Position) -> list[str]:
    return state.boards[0].split()


def random_play(game: ConnectFour, seed: int) -> list[Position]:
    rng = np.random.default_rng(seed)
    states = [game.new(Streams(seed))]
    while game.to_move(states[-1]):
        seat = states[-1].mover
        body = game.sample(states[-1], seat, rng)
        states.append(game.apply(states[-1], {seat: game.parse(states[-1], seat, body)}))
    return states


@given(GAMES, st.sampled_from([2, 4]), st.integers(0, 2**32))
def test_play_agrees_with_the_rules_spelled_out(
    sizes: tuple[int, int, int], players: int, seed: int
) -> None:
    rows, cols, k = sizes
    game = ConnectFour(rows=rows, cols=cols, k=k, players=players)
    states = random_play(game, seed)
    for number, state in enumerate(states):
        assert state.mover == (states[0].mover + number) % players
        grid = grid_of(state)
        lines = [line_on_grid(grid, piece, k) for piece in "XO"]
        assert [has_line(stones, rows, k) for stones in state.stones] == lines
        full = "." not in state.boards[0]
        over = full or any(lines)
        assert over == (number == len(states) - 1) == (game.to_move(state) == ())
        expected = ((1.0, -1.0) if lines[0] else (-1.0, 1.0) if lines[1] else (0.0, 0.0))  # fmt: skip
        assert game.returns(state) == (expected * (players // 2) if over else None)
        columns = list(zip(*grid, strict=True))
        assert list(state.open) == [str(c + 1) for c in range(cols) if columns[c][0] == "."]
        assert list(state.heights) == [rows - column.count(".") for column in columns]
        assert all("".join(column).lstrip(".").count(".") == 0 for column in columns)  # gravity
        assert state.boards[0].count("X") + state.boards[0].count("O") == number
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state


@given(st.sampled_from([2, 4]), st.integers(0, 2**32))
def test_sides_see_the_same_board_with_the_pieces_swapped(players: int, seed: int) -> None:
    game = ConnectFour(players=players)
    for state in random_play(game, seed):
        boards = [read_board(game.observe(state, seat)) for seat in range(players)]
        mine, theirs = boards[:2]
        assert boards == [mine, theirs] * (players // 2)
        assert (mine.mine, mine.theirs) == (theirs.theirs, theirs.mine) == state.stones
        assert mine.heights == state.heights
        assert (mine.rows, mine.cols, mine.k) == (6, 7, 4)


@pytest.mark.parametrize("players", [2, 4])
def test_every_seat_is_as_likely_to_begin(players: int) -> None:
    movers = [ConnectFour(players=players).new(Streams(1, seed)).mover for seed in range(400)]
    counts = np.bincount(movers)
    assert len(counts) == players
    assert all(abs(count - 400 / players) < 40 for count in counts)


def test_four_players_are_told_who_plays_with_whom_and_whose_turn_it_is() -> None:
    game = ConnectFour(players=4)
    state = game.new(Streams(0))._replace(mover=3)
    for seat, whose in enumerate([
        "X is you and player_2, O player_1 and player_3, . is empty.",
        "X is you and player_3, O player_0 and player_2, . is empty.",
        "X is you and player_0, O player_1 and player_3, . is empty.",
        "X is you and player_1, O player_0 and player_2, . is empty.",
    ]):  # fmt: skip
        text = game.observe(state, seat)
        assert whose in text
        assert f"You are player_{seat}.\n" in text
        assert text.endswith("Wait for player_3.\n") == (seat != 3)
    assert game.render(state).endswith("X is player_0 and player_2, O is player_1 and player_3.")


def test_a_seat_that_forfeits_loses_for_its_side() -> None:
    env = srl_envs.make("connect_four-v0", players=4, invalid="forfeit")
    players = {
        seat: (lambda _: "no idea")
        if seat == 2
        else srl_envs.make_bot("connect_four-v0", "middle", seed=seat)
        for seat in range(4)
    }
    result = srl_envs.play(env, players, seed=5)
    assert env.forfeited == (2,)
    assert result.outcomes == (-1.0, 1.0, -1.0, 1.0)


def test_a_mirrored_pair_keeps_the_first_mover() -> None:
    env = srl_envs.make("connect_four-v0")
    for seed in range(4):
        first = [env.reset(seed=seed)[0]["player_0"]["can_act"] for _ in range(2)]
        assert first[0] == first[1]


@pytest.mark.parametrize(
    "body",
    ["", "0", "8", "-1", "01", "1.0", "1 2", "4 4", "4 or 5", "not 4", "one", "１", "x" * 16],
)
def test_bodies_that_are_no_column(body: str) -> None:
    game = ConnectFour()
    with pytest.raises(IllegalMoveError, match="no column from 1 to 7"):
        game.parse(game.new(Streams(0)), 0, body)


@pytest.mark.parametrize(
    "body",
    ["4", " 4", "column 4", "Column: 4", "col 4", "I drop a piece into column 4", "#4", "4th"],
)
def test_a_column_may_be_named_in_words(body: str) -> None:
    game = ConnectFour()
    assert game.parse(game.new(Streams(0)), 0, body) == 3


def test_a_full_column_is_refused_and_the_fallback_is_the_lowest_open_one() -> None:
    game = ConnectFour(rows=4, cols=4, k=3)
    state = game.new(Streams(0))
    for _ in range(4):
        assert game.fallback(state, state.mover) == "1"
        state = game.apply(state, {state.mover: 0})
    with pytest.raises(IllegalMoveError, match="column 1 is full"):
        game.parse(state, state.mover, "1")
    assert game.fallback(state, state.mover) == "2"


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 3}, {"cols": 10}, {"k": 2}, {"k": 6}, {"rows": 4, "cols": 4, "k": 5}, {"rows": 6.0},
        {"players": 3}, {"players": 1}, {"players": True}, {"players": 4.0},
    ],
)  # fmt: skip
def test_impossible_boards_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        ConnectFour(**options)


def observation(board: str) -> str:
    """What the mover sees on ``board``, whose X are its own."""
    rows = board.split()
    text = str(srl_envs.make("connect_four-v0").reset(seed=0)[0]["player_0"]["text"])
    head = text.partition("You are player_0.\n")[0]
    return head + "\n".join(rows) + "\n1234567\nYour move. Open columns: 1 2 3 4 5 6 7\n"


WIN = "....... ....... ....... ....... ....... XXX.OO."
BLOCK = "....... ....... ....... ....... ....... OOO.X.X"
BOTH = "....... ....... ....... X.....O X.....O X.....O"
FORK = "....... ....... ....... ....... ....... ..XX..O"


@pytest.mark.parametrize("bot", ["middle", "strong", "held_out"])
@pytest.mark.parametrize(("board", "column"), [(WIN, 4), (BLOCK, 4), (BOTH, 1)])
def test_bots_win_and_block(bot: str, board: str, column: int) -> None:
    for seed in range(3):
        reply = srl_envs.make_bot("connect_four-v0", bot, seed=seed)(observation(board))
        assert reply == f"<action>{column}</action>"


@pytest.mark.parametrize("bot", ["strong", "held_out"])
def test_searching_bots_see_an_open_three(bot: str) -> None:
    reply = srl_envs.make_bot("connect_four-v0", bot)(observation(FORK))
    assert reply in {"<action>2</action>", "<action>5</action>"}


@pytest.mark.slow
def test_bots_stand_in_their_order() -> None:
    def margin(better: str, worse: str, pairs: int) -> float:
        env = srl_envs.make("connect_four-v0")
        total = 0.0
        for seed in range(pairs):
            for seat in (0, 1):
                players = {
                    seat: srl_envs.make_bot("connect_four-v0", better, seed=seed),
                    1 - seat: srl_envs.make_bot("connect_four-v0", worse, seed=100 + seed),
                }
                total += srl_envs.play(env, players, seed=seed).outcomes[seat]
        return total / (2 * pairs)

    assert margin("middle", "random", 20) > 0.5
    assert margin("strong", "middle", 8) > 0.3
    assert margin("strong", "held_out", 6) > 0.3


WORDS = st.sampled_from(
    ["column", "4", "7", "9", "I'll", "play", "or", "not", "-", ".", ":", "#", "12"]
)


@given(st.lists(WORDS, max_size=6), st.sampled_from([" ", ""]))
def test_what_is_read_as_a_column_is_the_only_number_there(words: list[str], space: str) -> None:
    game, body = ConnectFour(), space.join(words)
    try:
        column = game.parse(game.new(Streams(0)), 0, body)
    except IllegalMoveError:
        return
    assert re.findall(r"[0-9]+", body) == [str(column + 1)]
    assert not re.search(r"or|not|-|\.", body)
