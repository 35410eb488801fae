"""Features of the board games."""

from __future__ import annotations

from srl_envs.families.board.connect_four import ConnectFour
from srl_envs.families.board.connect_four_bots import read_board
from srl_envs.families.board.nim import LARGEST, MOST_HEAPS, Nim
from srl_envs.families.board.nim_bots import read_heaps
from srl_envs.wrappers.numeric.features import Features, Reading, floats, one_hot


class ConnectFourFeatures(Features):
    """Two planes of ``cols`` x ``rows``, column by column from the bottom: own pieces, the other's.

    Action ``c`` drops a piece into column ``c + 1``.
    """

    def __init__(self, game: ConnectFour) -> None:
        self._cells = game.cols * (game.rows + 1)  # bits of a board; the top bit is not a cell
        self._top = game.rows + 1
        self.size = 2 * game.cols * game.rows
        self.actions = tuple(str(column + 1) for column in range(game.cols))

    def read(self, text: str) -> Reading:
        """The board from the seat's side."""
        board = read_board(text)
        bits = [bit for bit in range(self._cells) if (bit + 1) % self._top]
        planes = [float(stones >> bit & 1) for stones in (board.mine, board.theirs) for bit in bits]
        return Reading(floats(planes), self.mask(str(c + 1) for c in board.open_columns()))


class NimFeatures(Features):
    """For each possible heap, its size one-hot (0 for no heap); then 1 in misere play.

    Actions: heap by heap, how many objects to take.
    """

    def __init__(self, game: Nim) -> None:
        self._heaps = game.heaps or MOST_HEAPS
        self.size = self._heaps * (LARGEST + 1) + 1
        self.actions = tuple(
            f"{heap} {count}"
            for heap in range(1, self._heaps + 1)
            for count in range(1, game.largest + 1)
        )

    def read(self, text: str) -> Reading:
        """Features of the heaps in an observation."""
        heaps, misere = read_heaps(text)
        sizes = [*heaps, *[0] * (self._heaps - len(heaps))]
        values = [value for size in sizes for value in one_hot(size, LARGEST + 1)]
        legal = (f"{i} {n}" for i, size in enumerate(heaps, 1) for n in range(1, size + 1))
        return Reading(floats([*values, float(misere)]), self.mask(legal))
