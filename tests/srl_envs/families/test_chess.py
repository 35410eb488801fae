"""Chess: what is paid, how moves are read, level starts that hold out, and how bots search."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspiel", reason="OpenSpiel is not installed: the extra `open-spiel`")

import srl_envs
from srl_envs.core import SPLITS, Streams, episode_entropy
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.board.chess import (
    LEVEL_TO,
    START,
    Chess,
    ChessGame,
    mirrored,
    reached,
    start_key,
)
from srl_envs.families.board.chess_bots import open_worth
from srl_envs.families.board.chess_search import (
    MATE,
    VALUES,
    WHITE,
    Worth,
    best_moves,
    captures_first,
    library,
    material,
    names,
    placement_of,
    position,
    quiet_score,
    score,
    square_worth,
    squares,
    white_moves,
)

ENV = "chess-v0"
GAME = ChessGame()
FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")
CASTLING = "r3k2r/pppq1ppp/2n2n2/2b1p3/2B1P3/2N2N2/PPPQ1PPP/R3K2R w KQkq - 0 9"
PROMOTING = "8/P6k/8/8/8/8/7K/8 w - - 0 1"
STALEMATE = ("7k/8/6Q1/8/8/8/8/K7 w - - 0 1", "a1a2")


def start(seed: int = 0, split: str = "train", game: ChessGame = GAME) -> Chess:
    return game.new(Streams(*episode_entropy(ENV, 0, split, seed)))  # type: ignore[arg-type]


def positions_of_play(count: int) -> list[Any]:
    """Positions that random games go through, of both sides."""
    found = []
    for seed in range(count):
        rng, state = np.random.default_rng(seed), start(seed)
        for _ in range(2 + 5 * seed % 30):
            if GAME.to_move(state):
                (seat,) = GAME.to_move(state)
                body = GAME.sample(state, seat, rng)
                state = GAME.apply(state, {seat: GAME.parse(state, seat, body)})
        found.append(reached(state.start, state.played))
    return [state for state in found if not state.is_terminal()]


# -- what is paid ------------------------------------------------------------------------------


@pytest.mark.parametrize("white", [0, 1])
def test_mate_pays_one_and_a_draw_nothing(white: int) -> None:
    mated = GAME.returns(Chess(START, white, FOOLS_MATE))
    assert mated is not None
    assert (mated[white], mated[1 - white]) == (-1.0, 1.0)
    assert GAME.returns(Chess(START, white, FOOLS_MATE[:3])) is None
    fen, move = STALEMATE
    assert GAME.returns(Chess(fen, white, (move,))) == (0.0, 0.0)
    back_and_forth = ("g1f3", "g8f6", "f3g1", "f6g8") * 2
    assert GAME.returns(Chess(START, white, back_and_forth)) == (0.0, 0.0)
    assert GAME.returns(Chess(START, white, back_and_forth[:-1])) is None


@pytest.mark.parametrize("white", [0, 1])
def test_at_the_end_of_the_moves_material_decides_a_part(white: int) -> None:
    queen_and_pawn = (
        "e2e4",
        "d7d5",
        "e4d5",
        "d8d5",
        "b1c3",
        "a7a6",
        "c3d5",
        "a6a5",
        "a2a3",
        "h7h6",
    )
    paid = ChessGame(plies=10).returns(Chess(START, white, queen_and_pawn))
    assert paid is not None
    # White took a pawn and the queen, Black a pawn
    assert paid[white] == pytest.approx((9 + 1 - 1) / 78)
    assert sum(paid) == 0.0
    assert GAME.returns(Chess(START, white, queen_and_pawn)) is None


# -- what is read ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fen", "body", "move"),
    [
        (START, "Nf3", "g1f3"),
        (START, "g1f3", "g1f3"),
        (START, "G1F3", "g1f3"),
        (START, "1. e4", "e2e4"),
        (START, "1.e4!", "e2e4"),
        (CASTLING, "O-O", "e1g1"),
        (CASTLING, "0-0-0", "e1c1"),
        (CASTLING, "e1g1", "e1g1"),
        (CASTLING, "Bxf7+", "c4f7"),
        (CASTLING, "Bxf7", "c4f7"),
        (PROMOTING, "a8=Q", "a7a8q"),
        (PROMOTING, "a8=N", "a7a8n"),
        (PROMOTING, "a7a8r", "a7a8r"),
    ],
)
def test_moves_are_read_in_both_notations(fen: str, body: str, move: str) -> None:
    assert GAME.parse(Chess(fen, 0), 0, body) == move


@pytest.mark.parametrize("body", ["", "e5", "Nf6", "e2", "e2e5", "e4 d4", "Kxe1", "O-O", "0", "#"])
def test_what_is_no_legal_move_is_refused(body: str) -> None:
    with pytest.raises(IllegalMoveError, match="legal move in SAN or UCI"):
        GAME.parse(Chess(START, 0), 0, body)


def test_every_listed_move_is_read_back_in_both_notations() -> None:
    for state in positions_of_play(12):
        there = Chess(str(state), 0)
        seat = GAME.to_move(there)[0]
        listed = GAME.legal(there, seat)
        assert listed is not None
        assert len(listed) == len(state.legal_actions())
        for san, uci in names(state).items():
            assert GAME.parse(there, seat, san) == GAME.parse(there, seat, uci) == uci


def test_of_three_offered_moves_one_is_the_best_by_material_and_no_other_counts() -> None:
    game, taken = ChessGame(moves="three"), 0
    for state in positions_of_play(12):
        there = Chess(str(state), 0)
        (seat,) = game.to_move(there)
        offered, every = game.legal(there, seat), names(state)
        assert offered is not None
        assert len(offered) == min(3, len(every))

        def gain(san: str, here: Any = state, every: dict[str, str] = every) -> int:
            after = here.child(here.parse_move_to_action(every[san]))
            return material(placement_of(after)) * (1 if white_moves(here) else -1)

        assert max(map(gain, offered)) == max(map(gain, every))
        taken += max(map(gain, every)) > min(map(gain, every))
        for san in set(every) - set(offered):
            with pytest.raises(IllegalMoveError, match="three offered"):
                game.parse(there, seat, san)
    assert taken > 3


@pytest.mark.parametrize("moves", ["three", "listed", "unlisted"])
def test_the_example_is_legal_and_every_text_fits(moves: str) -> None:
    game, rng = ChessGame(moves=moves, plies=160), np.random.default_rng(1)
    state = start(3, game=game)
    while game.to_move(state):
        (seat,) = game.to_move(state)
        text = game.observe(state, seat)
        (example,) = re.findall(r"<action>(.*?)</action>", text)
        game.parse(state, seat, example)
        assert len(text) < game.max_observation_chars
        state = game.apply(state, {seat: game.parse(state, seat, game.sample(state, seat, rng))})
    assert "The game is over." in game.observe(state, 0)


# -- starts ------------------------------------------------------------------------------------


def test_a_position_with_colors_exchanged_is_worth_the_opposite_and_has_the_same_key() -> None:
    for state in positions_of_play(12):
        fen = str(state)
        turned = mirrored(fen)
        assert mirrored(f"{turned} 0 1") == " ".join(fen.split()[:4])
        assert start_key(f"{turned} 0 1") == start_key(fen)
        assert square_worth(turned.split()[0]) == -square_worth(placement_of(state))
        assert open_worth(turned.split()[0]) == -open_worth(placement_of(state))
        assert len(names(position(f"{turned} 0 1"))) == len(names(state))


def test_starts_are_level_and_none_of_eval_is_in_train() -> None:
    keys = {}
    for split in SPLITS:
        starts = [start(seed, split) for seed in range(30)]
        keys[split] = {start_key(state.start) for state in starts}
        assert {state.white for state in starts} == {0, 1}
        for state in starts:
            here = position(state.start)
            assert not here.is_terminal()
            assert abs(score(here, square_worth, 1)) <= LEVEL_TO
    assert not keys["train"] & keys["eval"]
    assert min(map(len, keys.values())) > 25


# -- search ------------------------------------------------------------------------------------


def test_captures_are_the_moves_onto_a_piece() -> None:
    chess, seen = library().chess, 0
    for state in positions_of_play(20):
        board = state.board()
        pieces = squares(placement_of(state))
        expected = set()
        for number in state.legal_actions():
            goal = chess.action_to_move(number, board).to_square
            taken = pieces[goal.x + 8 * goal.y]
            if board.at(goal).type != chess.PieceType.EMPTY:
                expected.add(number)
                assert taken != "."
        taking, others = captures_first(state, white_moves(state))
        assert (set(taking), {*taking, *others}) == (expected, {*state.legal_actions()})
        seen += len(taking)
    assert seen > 10


def slow_score(state: Any, worth: Worth, plies: int) -> int:
    """All moves to the end, without any cut."""
    if state.is_terminal():
        return int(state.returns()[WHITE]) * MATE * (1 if white_moves(state) else -1) * (plies + 1)
    if plies == 0:
        return quiet_score(state, worth, -2 * MATE, 2 * MATE)
    return max(-slow_score(state.child(n), worth, plies - 1) for n in state.legal_actions())


def test_a_search_that_cuts_finds_what_a_full_one_finds() -> None:
    for plies, state in zip((0, 1, 0, 0, 0), positions_of_play(5), strict=False):
        assert score(state, square_worth, 1) == slow_score(state, square_worth, 1)
        values = {
            n: -slow_score(state.child(n), square_worth, plies) for n in state.legal_actions()
        }
        best = {n for n, value in values.items() if value == max(values.values())}
        assert set(best_moves(state, list(values), square_worth, plies)) == best
        some = sorted(values)[::2]
        most = max(values[n] for n in some)
        assert {values[n] for n in best_moves(state, some, square_worth, plies)} == {most}


def test_exchanges_are_played_out_before_a_position_is_valued() -> None:
    """A queen that takes a guarded pawn is lost; a free one is won."""
    guarded = position("4k3/8/2p5/3p4/8/8/8/3QK3 w - - 0 1")
    free = position("4k3/8/8/3p4/8/8/8/3QK3 w - - 0 1")
    wide = (-2 * MATE, 2 * MATE)
    assert quiet_score(guarded, material, *wide) == VALUES["q"] - 2 * VALUES["p"]
    assert quiet_score(free, material, *wide) == VALUES["q"]


@pytest.mark.parametrize("bot", ["strong", "middle"])
@pytest.mark.parametrize(
    ("fen", "mate"),
    [
        ("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1", "Ra8#"),
        ("r5k1/5ppp/8/8/8/8/5PPP/6K1 b - - 0 1", "Ra1#"),
    ],
)
def test_a_mate_in_one_is_played(bot: str, fen: str, mate: str) -> None:
    there = Chess(fen, 0)
    (seat,) = GAME.to_move(there)
    assert f">{mate}<" in srl_envs.make_bot(ENV, bot, seed=2)(GAME.observe(there, seat))


@pytest.mark.parametrize("moves", ["three", "listed", "unlisted"])
def test_bots_send_only_moves_that_count(moves: str) -> None:
    env: Any = srl_envs.make(ENV, moves=moves, plies=12)
    bots = srl_envs.spec(ENV).bots
    for seed, name in enumerate(bots):
        pair = {0: srl_envs.make_bot(ENV, name, seed=seed), 1: srl_envs.make_bot(ENV, "random")}
        game = srl_envs.play(env, pair, seed=seed)
        assert not any(label for step in game.steps for label in step.invalid)


@pytest.mark.slow
def test_a_stronger_bot_beats_the_next() -> None:
    env: Any = srl_envs.make(ENV, plies=60)
    for better, worse in (("strong", "middle"), ("middle", "random")):
        gained = 0.0
        for seed in range(4):
            for seat in (0, 1):
                pair = {s: better if s == seat else worse for s in (0, 1)}
                bots = {s: srl_envs.make_bot(ENV, name, seed=seed) for s, name in pair.items()}
                gained += srl_envs.play(env, bots, seed=seed).outcomes[seat]
        assert gained / 8 > 0.2


# -- states, options, library ------------------------------------------------------------------


def test_states_survive_json() -> None:
    state = Chess(START, 1, FOOLS_MATE)
    assert GAME.decode(json.loads(json.dumps(GAME.encode(state)))) == state


@pytest.mark.parametrize(
    "options", [{"plies": 9}, {"plies": 161}, {"opening": 3}, {"opening": True}, {"moves": "all"}]
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=name):
        ChessGame(**options)


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    assert ENV in srl_envs.list_envs()
    with pytest.raises(ConfigError, match=r'pip install "srl-envs\[open-spiel\]"') as failure:
        srl_envs.make(ENV)
    assert "\n" not in str(failure.value)
