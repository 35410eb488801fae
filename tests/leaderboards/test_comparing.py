"""Playing again and comparing: equal results pass, and the first difference is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from leaderboards.boards.archive import PUBLISHED
from leaderboards.boards.comparing import compare
from leaderboards.boards.publishing import publish
from leaderboards.bundles.submission import Bundle, open_bundle
from leaderboards.bundles.verify import verify
from leaderboards.redteam.forger import Forger
from tests.leaderboards.command import main
from tests.leaderboards.forging import make_bundle

GAME = "kuhn_poker-v0"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("again"), GAME)


def board_of(folder: Path, tmp_path: Path) -> Path:
    """A board with one bundle."""
    verdict = verify(folder, "L1", workers=0)
    assert verdict.accepted, verdict.rejected
    publish(open_bundle(folder), verdict, tmp_path / "board")
    return tmp_path / "board"


def test_one_seed_of_the_published_board_is_reproduced_and_nothing_is_written(
    bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in PUBLISHED.rglob("*"))
    assert main(["compare", str(bundle.folder), "--board", str(PUBLISHED)]) == 0
    assert f"reproduced, {len(bundle.specs)} matches are the same" in capsys.readouterr().out
    assert sorted((p, p.stat().st_mtime_ns) for p in PUBLISHED.rglob("*")) == before


def test_another_reply_is_named_with_its_match(
    bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = Forger.of(bundle, tmp_path)
    forged.replay_with(3, lambda seat, turn, reply: "<action>pass</action>")
    forged.recompute_ratings()
    board = board_of(forged.rehash(), tmp_path)
    found = compare(bundle, board)
    assert not found.reproduced
    assert "record 3 " in found.difference
    assert "step 0: replies are claimed as" in found.difference
    assert found.shared == found.matches == len(bundle.specs)
    assert main(["compare", str(bundle.folder), "--board", str(board)]) == 1
    assert "differs from the board: record 3 " in capsys.readouterr().out


def test_what_the_board_does_not_have_is_not_reproduced(
    bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_bundle(tmp_path, "nim-v0")
    board = board_of(other.folder, tmp_path)
    assert main(["compare", str(bundle.folder), "--board", str(board)]) == 1
    assert f"the board has 0 of its {len(bundle.specs)} matches" in capsys.readouterr().out
    assert compare(other, board).reproduced


def test_an_agent_of_the_same_name_and_other_contents_is_another(
    bundle: Bundle, tmp_path: Path
) -> None:
    board = board_of(bundle.folder, tmp_path)
    bundle.agents[1].spec["bot"] = "another bot"
    try:
        difference = compare(bundle, board).difference
    finally:
        bundle.agents[1].spec["bot"] = bundle.agents[1].agent_id.removeprefix("bot:")
    assert difference == f"agent {bundle.agents[1].agent_id} is another one on the board"


def test_a_folder_that_is_no_board_is_refused(
    bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(bundle.folder), "--board", str(tmp_path / "nowhere")]) == 2
    assert "is not a board" in capsys.readouterr().err
