"""A board accepts valid bundles, keeps them, and returns them as one store."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from leaderboards.boards.archive import CHANGELOG, merged_store, read_board
from leaderboards.boards.publishing import publish
from leaderboards.bundles.agents import parse_entrants
from leaderboards.bundles.run import BoardRun, opened
from leaderboards.bundles.submission import Bundle, find_bundles, open_bundle, write_bundle
from leaderboards.bundles.verify import Level, verify
from leaderboards.contents.intake import BundleError, private_copy
from leaderboards.pages.build import board_site
from leaderboards.protocol import load_protocol
from leaderboards.redteam.forger import Forger
from srl_envs.errors import ConfigError, StoreError
from tests.leaderboards.forging import make_bundle


@pytest.fixture(scope="module")
def kuhn(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("kuhn"), "kuhn_poker-v0")


@pytest.fixture(scope="module")
def nim(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("nim"), "nim-v0")


def play_more_seeds(folder: Path) -> Bundle:
    protocol = load_protocol("kuhn_poker-v0")
    run = BoardRun(protocol, parse_entrants([], protocol), folder / "run", seeds=2)
    with opened(run):
        run.play()
    return write_bundle(folder / "run", folder / "bundles")


def put(bundle: Bundle, board: Path, level: Level = "L2") -> bool:
    return publish(bundle, verify(bundle.folder, level, workers=0), board, reason="a test")


def test_a_board_groups_bundles_and_keeps_what_was_checked(
    kuhn: Bundle, nim: Bundle, tmp_path: Path
) -> None:
    assert put(nim, tmp_path)
    assert put(kuhn, tmp_path)
    groups = read_board(tmp_path).groups
    assert [group.protocol.name for group in groups] == ["kuhn_poker-v0", "nim-v0"]
    assert groups[0].entries[0].level == "L2"
    assert list(groups[0].entries[0].verified["checked"]) == ["L0", "L1", "L2"]
    lines = [json.loads(line) for line in (tmp_path / CHANGELOG).read_text().splitlines()]
    assert [(line["action"], line["env"], line["reason"]) for line in lines] == [
        ("add", "nim-v0", "a test"),
        ("add", "kuhn_poker-v0", "a test"),
    ]
    assert verify(groups[0].entries[0].bundle.folder, "L3", workers=0).accepted


def test_the_same_bundle_goes_in_once(kuhn: Bundle, tmp_path: Path) -> None:
    assert put(kuhn, tmp_path)
    assert not put(kuhn, tmp_path)
    assert len((tmp_path / CHANGELOG).read_text().splitlines()) == 1


def test_the_same_claim_under_another_root_is_a_reproduction(kuhn: Bundle, tmp_path: Path) -> None:
    """Else one result could be shown any number of times."""
    assert put(kuhn, tmp_path / "board")
    again = Forger.of(kuhn, tmp_path)
    again.manifest["provenance"]["started"] = "2026-01-01T00:00:00+00:00"
    assert not put(open_bundle(again.rehash()), tmp_path / "board")
    assert len(list((tmp_path / "board").glob("*/*/manifest.json"))) == 1


def test_what_was_not_accepted_is_not_published(kuhn: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(kuhn, tmp_path)
    forged.ratings["rows"][0]["elo"] += 1.0
    folder = forged.rehash()
    with pytest.raises(ConfigError, match="was not accepted at L2"):
        put(open_bundle(folder), tmp_path / "board")
    with pytest.raises(ConfigError, match="was not accepted"):  # the verdict on another bundle
        publish(open_bundle(folder), verify(kuhn.folder, "L2", workers=0), tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_bundles_become_one_store_with_every_match_once(
    kuhn: Bundle, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A second bundle on more seeds shares the references' matches of the first."""
    protocol = load_protocol("kuhn_poker-v0")
    longer = play_more_seeds(tmp_path)
    assert put(kuhn, tmp_path / "board")
    assert put(longer, tmp_path / "board")
    (group,) = read_board(tmp_path / "board").groups
    with merged_store(group, tmp_path / "merged.db") as merged:
        store = merged.store
        assert store.count("kuhn_poker-v0", "eval", "eval") == len(longer.specs)
        assert [a.agent_id for a in store.agents()] == list(protocol.references)
        assert [a.agent_id for a in store.agents() if a.role == "anchor"] == [
            "bot:random", "bot:middle", "bot:strong",
        ]  # fmt: skip
        assert sorted(store.matches()[0][0].match_id) == sorted(kuhn.specs[0].match_id)


# --- one bad bundle stops nothing ------------------------------------------------------------


def forged_game(kuhn: Bundle, folder: Path, reply: str = "<action>fold</action>") -> Bundle:
    """Everything replays, but a bot did not play so: L1 cannot know, L2 can."""
    folder.mkdir(exist_ok=True)
    forged = Forger.of(kuhn, folder)
    forged.replay_with(7, lambda *_: reply)
    forged.recompute_ratings()
    return open_bundle(forged.rehash())


def counted(board: Path, folder: Path) -> tuple[list[str], list[str]]:
    """(roots that count, reasons of what does not) of a board of one protocol."""
    found = read_board(board)
    reasons = [part.reason for part in found.set_aside]
    roots = []
    for group in found.groups:
        with merged_store(group, folder / f"{board.name}.db") as merged:
            roots += [entry.bundle.root for entry in merged.entries]
            reasons += [part.reason for part in merged.set_aside]
    return roots, reasons


def test_of_two_bundles_that_contradict_each_other_the_first_published_stays(
    kuhn: Bundle, tmp_path: Path
) -> None:
    forged = forged_game(kuhn, tmp_path)
    for board, order in (("one", (kuhn, forged)), ("two", (forged, kuhn))):
        for bundle in order:
            put(bundle, tmp_path / board, "L1")
        roots, (reason,) = counted(tmp_path / board, tmp_path)
        assert roots == [order[0].root]
        assert "has another result" in reason


def test_a_bundle_that_was_verified_further_stays_whenever_it_came(
    kuhn: Bundle, tmp_path: Path
) -> None:
    """Else the first forger of a bot's replies keeps all honest bundles from the board."""
    board = tmp_path / "board"
    put(forged_game(kuhn, tmp_path), board, "L1")
    put(kuhn, board)
    roots, (reason,) = counted(board, tmp_path)
    assert roots == [kuhn.root]
    assert "verified further" in reason


def test_a_row_shows_its_lowest_level_and_how_many_matches_stand_at_which(
    kuhn: Bundle, tmp_path: Path
) -> None:
    """An honest bundle of one seed at L3 lends its level to no other match."""
    board = tmp_path / "board"
    longer = play_more_seeds(tmp_path)
    put(longer, board)
    publish(kuhn, verify(kuhn.folder, "L3", workers=0), board)
    data, _ = board_site(board, per_board=0)
    (shown,) = data["boards"]
    for row in shown["agents"]:
        assert row["level"] == "L2"
        assert row["levels"] == {"L2": 8, "L3": 8}
    assert data["set_aside"] == []


def litter(board: Path, name: str, make: Callable[[Path], object]) -> None:
    path = board / "kuhn_poker-v0" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)


def write_manifest(text: str) -> Callable[[Path], object]:
    def make(path: Path) -> object:
        path.mkdir()
        return (path / "manifest.json").write_text(text)

    return make


def pipe_for_a_manifest(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / "manifest.json")


LITTER: dict[str, Callable[[Path], object]] = {
    "0000000000000001": pipe_for_a_manifest,
    "0000000000000002": os.mkfifo,
    "0000000000000003": write_manifest("{}"),
    "0000000000000004": write_manifest("[" * 100_000),
    "0000000000000005": lambda path: path.symlink_to("/etc"),
    "0000000000000006": lambda path: path.mkdir(),
    "0000000000000007": lambda path: path.touch(),
    "x" * 200: lambda path: path.mkdir(),
    "\x1b[2J": lambda path: path.mkdir(),
}


def test_what_is_no_bundle_is_set_aside_by_name_and_the_site_is_built(
    kuhn: Bundle, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    put(kuhn, board)
    litter(board, ".tmp-0000000000000000", pipe_for_a_manifest)
    for name, make in LITTER.items():
        litter(board, name, make)
    (board / "linked-v0").symlink_to(board / "kuhn_poker-v0")
    data, episodes = board_site(board, per_board=2)
    assert len(list(episodes)) == 2
    assert len(data["set_aside"]) == len(LITTER) + 1
    for part in data["set_aside"]:
        assert part["reason"]
        assert (part["bundle"] + part["reason"]).isprintable()


def test_a_bundle_without_its_verification_is_set_aside(kuhn: Bundle, tmp_path: Path) -> None:
    put(kuhn, tmp_path)
    path = next(tmp_path.glob("*/*.verified.json"))
    data = json.loads(path.read_text())
    for change in ({"root": "0" * 64}, {"level": "L9"}, {"bonus": 1}, {"notes": [7]}):
        path.write_text(json.dumps(data | change))
        (part,) = read_board(tmp_path).set_aside
        assert "not signed by this board's key" in part.reason
    for text in ("7", "{", "[" * 100_000):
        path.write_text(text)
        assert "cannot be read" in read_board(tmp_path).set_aside[0].reason
    path.unlink()
    os.mkfifo(path)
    assert "named pipe" in read_board(tmp_path).set_aside[0].reason
    path.unlink()
    assert "cannot be read" in read_board(tmp_path).set_aside[0].reason
    with pytest.raises(StoreError, match=r"no bundle that counts.*verified\.json"):
        board_site(tmp_path)


def test_records_that_are_damaged_on_the_board_are_set_aside(
    kuhn: Bundle, nim: Bundle, tmp_path: Path
) -> None:
    put(kuhn, tmp_path)
    put(nim, tmp_path)
    path = tmp_path / "kuhn_poker-v0" / kuhn.folder.name / "matches.jsonl.xz"
    path.write_bytes(path.read_bytes()[:-40])
    data, _ = board_site(tmp_path, per_board=0)
    assert [board["env_id"] for board in data["boards"]] == ["nim-v0"]
    (part,) = data["set_aside"]
    assert part["bundle"] == f"kuhn_poker-v0/{kuhn.folder.name}"
    assert "matches.jsonl.xz" in part["reason"]


def test_a_damaged_changelog_stops_nothing(kuhn: Bundle, tmp_path: Path) -> None:
    put(kuhn, tmp_path)
    with (tmp_path / CHANGELOG).open("ab") as file:
        file.write(b'7\n{"root"\n\xff\xff\n{"when": 3}\n')  # pages slice the time
    data, _ = board_site(tmp_path, per_board=0)
    assert [change["root"] for change in data["changes"]] == [kuhn.root]
    assert [part["bundle"] for part in data["set_aside"]] == [CHANGELOG] * 4
    (tmp_path / CHANGELOG).unlink()
    os.mkfifo(tmp_path / CHANGELOG)
    data, _ = board_site(tmp_path, per_board=0)
    assert "named pipe" in data["set_aside"][0]["reason"]


def test_what_was_verified_is_what_is_published(kuhn: Bundle, tmp_path: Path) -> None:
    """The folder is exchanged between the two looks."""
    mine = Forger.of(kuhn, tmp_path).folder
    verdict = verify(mine, "L2", workers=0)
    (mine / "ratings.json").write_text("{}\n")
    with pytest.raises(BundleError, match="changed after it was verified"):
        publish(open_bundle(mine), verdict, tmp_path / "board")
    assert not list((tmp_path / "board").glob("*/*"))


def test_a_private_copy_is_its_owners_alone(kuhn: Bundle, tmp_path: Path) -> None:
    with private_copy(kuhn.folder) as copy:
        assert copy.folder.name == kuhn.folder.name
        assert stat.S_IMODE(copy.folder.parent.stat().st_mode) == 0o700
        assert verify(copy, "L2", workers=0).accepted
        assert publish(open_bundle(copy.folder), verify(copy, "L1"), tmp_path / "board")
    assert not copy.folder.exists()
    assert not list((tmp_path / "board").rglob(".tmp*"))


def test_a_transcript_is_found_by_its_match(kuhn: Bundle) -> None:
    spec = kuhn.specs[5]
    assert kuhn.transcript(spec.match_id).seed == spec.seed
    with pytest.raises(ConfigError, match="no match"):
        kuhn.transcript("0" * 32)


def test_bundles_are_found_below_a_folder(kuhn: Bundle, tmp_path: Path) -> None:
    assert find_bundles(kuhn.folder) == [kuhn.folder]
    assert find_bundles(kuhn.folder.parent.parent) == [kuhn.folder]
    with pytest.raises(ConfigError, match="holds no bundle"):
        find_bundles(tmp_path)
