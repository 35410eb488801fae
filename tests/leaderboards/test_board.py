"""A board takes in what holds, keeps it, and gives it out as one store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forging import Open, make_bundle

from leaderboards.board import CHANGELOG, merged_store, read_board
from leaderboards.bundle import Bundle, find_bundles, open_bundle
from leaderboards.publishing import publish
from leaderboards.verify import verify
from srl_envs.errors import ConfigError, StoreError


@pytest.fixture(scope="module")
def kuhn(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("kuhn"), "kuhn_poker-v0")


@pytest.fixture(scope="module")
def nim(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("nim"), "nim-v0")


def put(bundle: Bundle, board: Path) -> bool:
    return publish(bundle, verify(bundle.folder, "L2", workers=0), board, reason="a test")


def test_a_board_groups_bundles_and_keeps_what_was_checked(
    kuhn: Bundle, nim: Bundle, tmp_path: Path
) -> None:
    assert put(nim, tmp_path)
    assert put(kuhn, tmp_path)
    groups = read_board(tmp_path)
    assert [group.protocol.name for group in groups] == ["kuhn_poker-v0", "nim-v0"]
    assert groups[0].levels["bot:strong"] == "L2"
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
    again = Open.of(kuhn, tmp_path)
    again.manifest["provenance"]["started"] = "2000-01-01T00:00:00+00:00"
    assert not put(open_bundle(again.rehash()), tmp_path / "board")
    assert len(list((tmp_path / "board").glob("*/*/manifest.json"))) == 1


def test_what_was_not_accepted_is_not_published(kuhn: Bundle, tmp_path: Path) -> None:
    forged = Open.of(kuhn, tmp_path)
    forged.ratings["rows"][0]["elo"] += 1.0
    folder = forged.rehash()
    with pytest.raises(ConfigError, match="was not accepted at L2"):
        put(open_bundle(folder), tmp_path / "board")
    with pytest.raises(ConfigError, match="was not accepted"):  # somebody else's verdict
        publish(open_bundle(folder), verify(kuhn.folder, "L2", workers=0), tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_bundles_become_one_store_with_every_match_once(
    kuhn: Bundle, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A second bundle on more seeds shares the references' matches of the first."""
    from leaderboards.agents import parse_entrants
    from leaderboards.bundle import write_bundle
    from leaderboards.protocol import load_protocol
    from leaderboards.run import BoardRun, opened

    protocol = load_protocol("kuhn_poker-v0")
    run = BoardRun(protocol, parse_entrants([], protocol), tmp_path / "run", seeds=2)
    with opened(run):
        run.play()
    longer = write_bundle(tmp_path / "run", tmp_path / "bundles")
    assert put(kuhn, tmp_path / "board")
    assert put(longer, tmp_path / "board")
    (group,) = read_board(tmp_path / "board")
    with merged_store(group, tmp_path / "merged.db") as store:
        assert store.count("kuhn_poker-v0", "eval", "eval") == len(longer.specs)
        assert [a.agent_id for a in store.agents()] == list(protocol.references)
        assert [a.agent_id for a in store.agents() if a.role == "anchor"] == [
            "bot:random", "bot:middle", "bot:strong",
        ]  # fmt: skip
        assert sorted(store.matches()[0][0].match_id) == sorted(kuhn.specs[0].match_id)


def test_bundles_that_contradict_each_other_do_not_merge(kuhn: Bundle, tmp_path: Path) -> None:
    put(kuhn, tmp_path / "board")
    forged = Open.of(kuhn, tmp_path)
    forged.replay_with(7, lambda *_: "<action>fold</action>")
    forged.recompute_ratings()
    put(open_bundle(forged.rehash()), tmp_path / "board")  # L2 cannot know that bots did not play
    (group,) = read_board(tmp_path / "board")
    with (
        pytest.raises(StoreError, match="One spec gave two results"),
        merged_store(group, tmp_path / "merged.db"),
    ):
        pass


def test_a_bundle_without_its_verification_is_refused(kuhn: Bundle, tmp_path: Path) -> None:
    put(kuhn, tmp_path)
    path = next(tmp_path.glob("*/*.verified.json"))
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"root": "0" * 64}))
    with pytest.raises(StoreError, match="another bundle"):
        read_board(tmp_path)
    path.unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        read_board(tmp_path)


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
