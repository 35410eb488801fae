"""The fault matrix: some of its cells, and the page that lists all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from srl_agents.trainers.learner import AdapterLearner
from tests.commit_cases import nightly_but
from tests.faults.matrix import RESULTS, Workshop
from tests.faults.matrix_cells import CELLS, FAULTS, RESET, Cell, follow
from tests.faults.matrix_page import COMMAND, PAGE, page

SOME = (
    "trainer/training, one of two learners has stepped/killed",
    "trainer/publishing, one of two versions is installed/hung",
    "store/evaluating, in a transaction/killed",
    "torchrun, rank 1 of 2/checkpointing/killed",
    "endpoint/evaluating, it is being asked/reset",
)
"""Of each kind of end; the first for every commit."""


def test_the_page_is_current_and_every_cell_that_was_played_is_right() -> None:
    assert PAGE.read_text() == page(), f"run `{COMMAND}`"
    done = json.loads(RESULTS.read_text())
    assert done.keys() <= {cell.name for cell in CELLS}
    assert {name: ended["wrong"] for name, ended in done.items() if ended["wrong"]} == {}
    assert len(CELLS) >= 60
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert {cell.fault for cell in CELLS} == {*FAULTS, RESET}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("cells"))


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but(SOME[:1], SOME))
def test_a_cell_ends_as_it_must(name: str, shop: Workshop) -> None:
    (cell,) = [cell for cell in CELLS if cell.name == name]
    assert shop.play(cell).wrong(cell) == ""


@pytest.mark.slow
def test_a_run_that_loses_one_step_is_told_from_the_one_that_nothing_struck(shop: Workshop) -> None:
    def arm(patch: pytest.MonkeyPatch) -> None:
        clock, whole = follow(patch), AdapterLearner.apply_gradients

        def broken(learner: AdapterLearner[Any]) -> None:
            if not clock.due(1):
                whole(learner)

        patch.setattr(AdapterLearner, "apply_gradients", broken)

    cell = Cell(role="learner", phase="training", fault="lost", arm=arm, codes=(0,))
    assert shop.play(cell).wrong(cell) == "another result than the run that nothing struck"
