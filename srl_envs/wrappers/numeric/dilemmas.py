"""Features of the dilemmas."""

from __future__ import annotations

from srl_envs.families.dilemmas.iterated_dilemma import LARGEST_POINTS, MAX_ROUNDS, IteratedDilemma
from srl_envs.families.dilemmas.iterated_dilemma_bots import read_view
from srl_envs.wrappers.numeric.features import Features, Reading, floats, one_hot

_CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))


class DilemmaFeatures(Features):
    """Own and the other's points in the four cells, rounds to come, then every past round.

    Points are shares of 9, rounds of 20; a round is the two moves one-hot. Actions: A and B, without
    a word; what the other says is not read.
    """

    def __init__(self, game: IteratedDilemma) -> None:
        self._rounds = game.max_turns
        self.size = 2 * len(_CELLS) + 1 + 4 * self._rounds
        self.actions = ("A", "B")

    def read(self, text: str) -> Reading:
        """The table and what was played."""
        view = read_view(text)
        values = [
            points[cell] / LARGEST_POINTS for points in (view.mine, view.theirs) for cell in _CELLS
        ]
        values.append(view.left / MAX_ROUNDS)
        for at in range(self._rounds):
            mine, theirs = view.past[at] if at < len(view.past) else (-1, -1)
            values += [*one_hot(mine, 2), *one_hot(theirs, 2)]
        return Reading(floats(values), self.mask(self.actions))
