"""A change of a game, its texts, its rules or its bots begins an epoch: old games leave the rating, and pages
say what changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from leaderboards.boards.archive import BoardGroup, Entry, merged_store, read_board
from leaderboards.boards.epochs import changes
from leaderboards.boards.publishing import publish
from leaderboards.bundles.run import BoardRun, opened
from leaderboards.bundles.submission import Bundle, open_bundle, write_bundle
from leaderboards.bundles.verify import verify
from leaderboards.contents.record import MatchRecord
from leaderboards.pages.build import NEVER_MOVED, board_site, boards_of_store
from leaderboards.pages.differences import differences, last_site
from leaderboards.pages.write import overview, write_site
from leaderboards.protocol import Protocol, load_protocol
from leaderboards.redteam.forger import Forger
from tests.chat_server import MODEL, chat_server
from tests.leaderboards.command import main

KUHN = load_protocol("kuhn_poker-v0")


@pytest.fixture(scope="module")
def kuhn(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("run")
    with opened(BoardRun(KUHN, [], folder / "run", seeds=1)) as run:
        run.play()
    return write_bundle(folder / "run", folder / "bundles")


@pytest.fixture
def other(kuhn: Bundle, tmp_path: Path) -> Bundle:
    """As an installation with another bot would have made it."""
    forged = Forger.of(kuhn, tmp_path)
    forged.replay_with(7, lambda *_: "<action>fold</action>")
    forged.recompute_ratings()
    return open_bundle(forged.rehash())


def put(bundle: Bundle, board: Path) -> None:
    """Publish as if this bundle's installation had replayed it."""
    verdict = verify(bundle.folder, "L1", workers=0)
    verdict.asked = verdict.reached = "L2"
    assert publish(bundle, verdict, board)


def merged(board: Path, folder: Path) -> tuple[list[str], list[Any], list[Any]]:
    """(roots that count, bundles of earlier epochs, bundles set aside)."""
    (group,) = read_board(board).groups
    with merged_store(group, folder / f"{board.name}.db") as found:
        roots = [entry.bundle.root for entry in found.entries]
        return roots, list(found.earlier), list(found.set_aside)


def test_the_bundle_that_came_last_begins_an_epoch(
    kuhn: Bundle, other: Bundle, tmp_path: Path
) -> None:
    for name, order in (("one", (kuhn, other)), ("two", (other, kuhn))):
        for bundle in order:
            put(bundle, tmp_path / name)
        roots, (left,), set_aside = merged(tmp_path / name, tmp_path)
        assert roots == [order[1].root]
        assert left.bundle == f"kuhn_poker-v0/{order[0].folder.name}"
        assert left.agents == KUHN.references
        assert "1 have other replies of bots" in left.changed
        assert set_aside == []


def test_a_bundle_that_was_not_replayed_begins_no_epoch(
    kuhn: Bundle, other: Bundle, tmp_path: Path
) -> None:
    """Else a forger of bots' replies takes everybody's games off the board."""
    board = tmp_path / "board"
    put(kuhn, board)
    assert publish(other, verify(other.folder, "L1", workers=0), board)
    roots, left, (aside,) = merged(board, tmp_path)
    assert (roots, left) == ([kuhn.root], [])
    assert "has another result" in aside.reason


@dataclass
class Played:
    """What `changes` reads of a bundle."""

    protocol: Protocol
    found: list[MatchRecord]

    def records(self) -> Iterator[MatchRecord]:
        return iter(self.found)


def shown_otherwise(record: MatchRecord) -> MatchRecord:
    return replace(record, transcript=replace(record.transcript, digest="0" * 64))


def judged_otherwise(record: MatchRecord) -> MatchRecord:
    return replace(record, result=replace(record.result, outcomes=(0.5, -0.5)))


def replied_otherwise(record: MatchRecord) -> MatchRecord:
    first, *rest = record.transcript.steps
    step = replace(first, replies=dict.fromkeys(first.replies, "something else"))
    return replace(record, transcript=replace(record.transcript, steps=(step, *rest)))


@pytest.mark.parametrize(
    ("change", "counts", "words"),
    [
        (shown_otherwise, (1, 0, 0), "1 show seats another text for the same replies"),
        (judged_otherwise, (0, 1, 0), "1 judge the same replies differently"),
        (replied_otherwise, (0, 0, 1), "1 have other replies of bots"),
        (lambda record: record, (0, 0, 0), "none differs"),
    ],
)
def test_what_changed_is_told_apart(
    kuhn: Bundle, change: Any, counts: tuple[int, int, int], words: str
) -> None:
    before = Played(KUHN, list(kuhn.records()))
    after = Played(KUHN, [change(before.found[0]), *before.found[1:-1]])
    found: Any = changes(before, after)  # type: ignore[arg-type]
    assert (found.seen, found.judged, found.replied) == counts
    assert found.matches == len(before.found) - 1
    assert found.any == bool(sum(counts))
    assert words in str(found)


def test_the_pages_say_what_changed_and_what_is_new_since_the_last_site(
    kuhn: Bundle, other: Bundle, tmp_path: Path
) -> None:
    board, out = tmp_path / "board", tmp_path / "site"
    assert last_site(out) is None
    put(other, board)
    first, _ = board_site(board, per_board=0)
    assert differences(None, first) == []
    write_site(first, out)
    assert differences(last_site(out), first) == []
    put(kuhn, board)
    second, _ = board_site(board, per_board=0)
    (shown,) = second["boards"]
    assert [part["bundle"] for part in shown["earlier"]] == [f"kuhn_poker-v0/{other.folder.name}"]
    assert overview(second)["boards"][0]["earlier"] == 1
    lines = differences(last_site(out), second)
    assert "kuhn_poker-v0: a new epoch, 1 bundles left the rating" in lines


def site(*places: tuple[str, int], game: str = "nim-v0") -> dict[str, Any]:
    rows = [{"agent": name, "best_rank": rank, "worst_rank": rank} for name, rank in places]
    board = {"protocol": game, "agents": rows}
    return {"schema": 5, "all_games": {"agents": []}, "boards": [board]}


def test_differences_name_who_came_went_and_moved() -> None:
    lines = differences(site(("a", 1), ("b", 2)), site(("b", 1), ("c", 2)))
    assert lines == [
        "nim-v0: b has rank 1, before 2",
        "nim-v0: c is new, rank 2",
        "nim-v0: a is gone",
    ]
    others = differences(site(("a", 1)), site(("a", 1), game="kuhn_poker-v0"))
    assert others == ["kuhn_poker-v0: a new game, with 1 agents", "nim-v0: no longer on this site"]
    many = site(*((f"a{k}", k) for k in range(200)))
    assert differences(site(), many)[-1] == "and 140 more differences"


@pytest.mark.parametrize("text", ["", "7", "[1]", "{", '{"schema": 5}', "[" * 100_000])
def test_a_strange_file_is_no_earlier_site(tmp_path: Path, text: str) -> None:
    (tmp_path / "data.json").write_text(text)
    assert differences(last_site(tmp_path), site(("a", 1))) == []


def test_an_agent_that_never_moves_is_marked_and_a_run_warns(
    kuhn: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chat_server(reply=lambda _: "I would rather not say.") as server:
        command = [
            "run",
            KUHN.name,
            "--seeds",
            "1",
            "--out",
            str(tmp_path / "run"),
            "--unregistered",
        ]
        assert main([*command, f"--agent=mute=openai:{MODEL}@{server.url}"]) == 0
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert "mute never made a move that kuhn_poker-v0 takes" in warning
    bundle = write_bundle(tmp_path / "run" / KUHN.name, tmp_path / "bundles")
    entry = Entry(bundle, "L2", {"published": "2030-01-01"})
    with merged_store(BoardGroup(KUHN, (entry,)), tmp_path / "merged.db") as found:
        assert found.moves["mute"] == 0 < min(found.moves[name] for name in KUHN.references)
        (board,) = boards_of_store(
            found.store, references=KUHN.references, mistakes=found.mistakes, moves=found.moves
        )
    doubts = {row["agent"]: NEVER_MOVED in row["provisional"] for row in board.data["agents"]}
    assert doubts.pop("mute")
    assert not any(doubts.values())


def test_bots_that_play_warn_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", KUHN.name, "--seeds", "1", "--out", str(tmp_path / "run")]) == 0
    assert "warning" not in capsys.readouterr().err
