"""Everything that a forger may do to a bundle is rejected, at its level and by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leaderboards.bundles.submission import Bundle
from leaderboards.bundles.verify import LEVELS, Level, verify
from leaderboards.redteam.forger import Forger
from tests.leaderboards.forging import make_bundle

LAST = 7
"""The record that most forgeries touch; messages must name it."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("honest"), "kuhn_poker-v0")


# --- what is changed without a thought for hashes --------------------------------------------


def outcome(o: Forger) -> None:
    result = o.matches[LAST]["result"]
    result["outcomes"] = [-x or 1.0 for x in result["outcomes"]]


def reward(o: Forger) -> None:
    o.matches[LAST]["result"]["rewards"][0] += 0.5


def action(o: Forger) -> None:
    o.transcripts[LAST]["steps"][0]["replies"] = {"0": "<action>bet</action>"}


def seed(o: Forger) -> None:
    o.matches[LAST]["seed"] += 1


def seats(o: Forger) -> None:
    o.matches[LAST]["seats"].reverse()


def drop_record(o: Forger) -> None:
    del o.matches[LAST], o.transcripts[LAST]


def drop_last_record(o: Forger) -> None:
    del o.matches[-1], o.transcripts[-1]


def duplicate(o: Forger) -> None:
    """A win in the place of the loss that came next."""
    o.matches[LAST + 1] = json.loads(json.dumps(o.matches[LAST]))
    o.transcripts[LAST + 1] = o.transcripts[LAST]


def add_again(o: Forger) -> None:
    o.matches.append(json.loads(json.dumps(o.matches[0])))
    o.transcripts.append(o.transcripts[0])


def reorder(o: Forger) -> None:
    for lines in (o.matches, o.transcripts):
        lines[LAST], lines[LAST + 1] = lines[LAST + 1], lines[LAST]


def reorder_transcripts(o: Forger) -> None:
    lines = o.transcripts
    lines[LAST], lines[LAST + 1] = lines[LAST + 1], lines[LAST]


def attempts(o: Forger) -> None:
    o.manifest["claim"]["declared"]["attempts"] = 3


def rating(o: Forger) -> None:
    o.ratings["rows"][-1]["elo"] += 100.0


def digest_of_views(o: Forger) -> None:
    o.transcripts[LAST]["digest"] = "0" * 64


def step_reward(o: Forger) -> None:
    o.transcripts[LAST]["steps"][-1]["rewards"][0] += 0.25


def component(o: Forger) -> None:
    o.transcripts[LAST]["components"][0]["format"] = 0.25


def last_step(o: Forger) -> None:
    """The game is cut short; the counted turns follow."""
    step = o.transcripts[LAST]["steps"].pop()
    o.matches[LAST]["result"]["turns"] -= len(step["replies"])


def invalid_count(o: Forger) -> None:
    o.matches[LAST]["result"]["invalid_replies"] = [0, 5]


def forfeit(o: Forger) -> None:
    o.matches[LAST]["result"] |= {"forfeited": [1], "termination": "forfeit"}


def void(o: Forger) -> None:
    o.matches[LAST]["result"]["termination"] = "void"


def impossible_outcome(o: Forger) -> None:
    o.matches[LAST]["result"]["outcomes"] = [2.0, -2.0]


def missing_key(o: Forger) -> None:
    del o.transcripts[LAST]["steps"]


def wrong_kind(o: Forger) -> None:
    o.matches[LAST]["result"]["outcomes"] = ["1", "-1"]


def unknown_key(o: Forger) -> None:
    o.matches[LAST]["result"]["bonus"] = 1


def smuggled_tokens(o: Forger) -> None:
    o.matches[LAST]["result"]["tokens"] = [3, 0]


NAIVE = [
    outcome, reward, action, seed, seats, drop_record, drop_last_record, duplicate, add_again, reorder,
    reorder_transcripts, attempts, rating, digest_of_views, step_reward, component, last_step,
    invalid_count, forfeit, void, impossible_outcome, missing_key, wrong_kind, unknown_key,
]  # fmt: skip


@pytest.mark.parametrize("forge", NAIVE, ids=lambda f: f.__name__)
def test_a_change_alone_breaks_the_hashes(
    forge: Callable[[Forger], None], honest: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    forge(forged)
    verdict = verify(forged.write(), "L0")
    assert verdict.reached is None
    names: dict[Callable[[Forger], None], str] = {
        attempts: "manifest.json was edited",
        rating: "ratings.json",
        drop_last_record: f"record {len(honest.specs) - 1} ",
        add_again: f"record {len(honest.specs)} ",
        duplicate: f"record {LAST + 1} ",
    }
    assert names.get(forge, f"record {LAST} ") in verdict.rejected


# --- changes by a forger who makes every hash fit again ----------------------------------


def protocol_hash(o: Forger) -> None:
    o.manifest["claim"]["protocol"]["sha256"] = "0" * 64


def protocol_version(o: Forger) -> None:
    o.manifest["claim"]["protocol"]["version"] = 2


def another_protocol(o: Forger) -> None:
    o.manifest["claim"]["protocol"]["name"] = "nim-v0"


def weaker_anchor(o: Forger) -> None:
    o.manifest["claim"]["agents"][1]["spec"]["bot"] = "random"


def renamed_reference(o: Forger) -> None:
    o.manifest["claim"]["agents"][1]["agent_id"] = "bot:strongest"


def more_seeds(o: Forger) -> None:
    o.manifest["claim"]["seeds"] = 2


def seeds_as_text(o: Forger) -> None:
    o.manifest["claim"]["seeds"] = "1"


def schema(o: Forger) -> None:
    o.manifest["schema"] = 1


REHASHED_L0 = [
    seed, seats, drop_record, drop_last_record, duplicate, add_again, reorder, invalid_count, void,
    impossible_outcome, missing_key, wrong_kind, unknown_key, smuggled_tokens, protocol_hash,
    protocol_version, another_protocol, weaker_anchor, renamed_reference, more_seeds, seeds_as_text,
    schema,
]  # fmt: skip
IN_MANIFEST = {
    protocol_hash, protocol_version, another_protocol, weaker_anchor, renamed_reference,
    seeds_as_text, schema,
}  # fmt: skip


@pytest.mark.parametrize("forge", REHASHED_L0, ids=lambda f: f.__name__)
def test_new_hashes_do_not_mend_what_contradicts_the_schedule(
    forge: Callable[[Forger], None], honest: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    forge(forged)
    verdict = verify(forged.rehash(), "L0")
    assert verdict.reached is None
    names: dict[Callable[[Forger], None], str] = {
        drop_last_record: f"record {len(honest.specs) - 1} ",
        add_again: f"record {len(honest.specs)} ",
        duplicate: f"record {LAST + 1} ",
        more_seeds: f"record {len(honest.specs)} ",
        **dict.fromkeys(IN_MANIFEST, "manifest.json"),
    }
    assert names.get(forge, f"record {LAST} ") in verdict.rejected


@pytest.mark.parametrize(("key", "value"), [("chain", "0" * 64), ("count", 19)])
def test_the_manifest_names_the_end_of_the_chain(
    key: str, value: object, honest: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    forged.manifest["claim"]["records"][key] = value
    verdict = verify(forged.sign(), "L0")
    assert verdict.reached is None
    assert "claim.records" in verdict.rejected


def test_ratings_of_another_bundle_are_not_taken(honest: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(honest, tmp_path)
    rating(forged)
    verdict = verify(forged.sign(), "L0")
    assert verdict.reached is None
    assert "ratings.json is not the one that the manifest names" in verdict.rejected


def test_attempts_are_a_number(honest: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(honest, tmp_path)
    forged.manifest["claim"]["declared"]["attempts"] = "one"
    assert "claim.declared.attempts" in verify(forged.rehash(), "L0").rejected


def test_new_hashes_do_not_mend_edited_ratings(honest: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(honest, tmp_path)
    rating(forged)
    verdict = verify(forged.rehash(), "L1")
    assert verdict.reached == "L0"
    assert f"ratings.json: rows: {forged.ratings['rows'][-1]['agent']}: elo" in verdict.rejected


def test_ratings_do_not_follow_from_a_changed_outcome(honest: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(honest, tmp_path)
    outcome(forged)
    verdict = verify(forged.rehash(), "L2", workers=0)
    assert verdict.reached == "L0"
    assert "ratings.json" in verdict.rejected


def another_game(o: Forger) -> None:
    """The match was played in an environment with other rules."""
    o.replay_with(LAST, lambda _seat, _turn, reply: reply, hands=1)


REHASHED_L2 = [
    outcome, reward, action, reorder_transcripts, digest_of_views, step_reward, component,
    last_step, forfeit, another_game,
]  # fmt: skip


@pytest.mark.parametrize("forge", REHASHED_L2, ids=lambda f: f.__name__)
def test_new_hashes_and_ratings_do_not_mend_what_does_not_replay(
    forge: Callable[[Forger], None], honest: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    forge(forged)
    if forge is reorder_transcripts:
        believe_transcripts(forged)
    forged.recompute_ratings()
    verdict = verify(forged.rehash(), "L2", workers=0)
    assert verdict.reached == "L1"
    assert f"record {LAST} " in verdict.rejected
    assert "does not replay" in verdict.rejected
    if forge is digest_of_views:
        assert "what the seats were shown differs" in verdict.rejected


def believe_transcripts(o: Forger) -> None:
    for k in (LAST, LAST + 1):
        record = o.record(k)
        o.matches[k]["result"]["turns"] = sum(len(s.replies) for s in record.transcript.steps)


def test_a_bot_that_plays_other_moves_is_found_out_by_its_own_replies(
    honest: Bundle, tmp_path: Path
) -> None:
    """Everything replays; only a repeated move of the bot shows the forgery."""
    forged = Forger.of(honest, tmp_path)
    seat, honestly = next(iter(forged.record(LAST).transcript.steps[0].replies.items()))
    other = "<action>bet</action>" if "check" in honestly else "<action>check</action>"
    forged.replay_with(LAST, lambda s, turn, reply: other if (s, turn) == (seat, 0) else reply)
    forged.recompute_ratings()
    verdict = verify(forged.rehash(), "L3", workers=0)
    assert verdict.reached == "L1"
    assert f"record {LAST} " in verdict.rejected
    assert "turn 0: the bot replies" in verdict.rejected


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.json", "matches.jsonl.xz", "transcripts.jsonl.xz"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.97])
def test_a_file_cut_short_is_rejected(
    name: str, kept: float, honest: Bundle, tmp_path: Path
) -> None:
    folder = Forger.of(honest, tmp_path).folder
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(len(data) * kept)])
    verdict = verify(folder, "L0")
    assert verdict.reached is None
    assert name in verdict.rejected


@pytest.mark.parametrize("name", ["ratings.json", "matches.jsonl.xz", "transcripts.jsonl.xz"])
def test_a_missing_file_is_rejected(name: str, honest: Bundle, tmp_path: Path) -> None:
    folder = Forger.of(honest, tmp_path).folder
    (folder / name).unlink()
    verdict = verify(folder, "L0")
    assert verdict.reached is None
    assert name in verdict.rejected


def test_a_file_more_is_rejected_with_new_hashes_too(honest: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(honest, tmp_path)
    (forged.folder / "notes.txt").write_text("trust me\n")
    assert "notes.txt is not part of a bundle" in verify(forged.folder, "L0").rejected
    assert "notes.txt is not part of a bundle" in verify(forged.rehash(), "L0").rejected


def test_another_name_of_the_folder_is_rejected(honest: Bundle, tmp_path: Path) -> None:
    folder = Forger.of(honest, tmp_path).folder
    assert (
        "is not the name of this bundle"
        in verify(folder.rename(tmp_path / "0123456789abcdef"), "L0").rejected
    )


@pytest.mark.parametrize(
    "text", ["", "null\n", "[]\n", "{}\n", '{"a": 1}\n', "[" * 100_000, '{"schema":NaN}\n', "\xff"]
)
def test_rubbish_for_a_manifest_is_rejected_not_raised(
    text: str, honest: Bundle, tmp_path: Path
) -> None:
    folder = Forger.of(honest, tmp_path).folder
    (folder / "manifest.json").write_text(text, encoding="latin-1")
    verdict = verify(folder, "L3")
    assert verdict.reached is None
    assert "manifest.json" in verdict.rejected


# --- and the honest ones ---------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_an_honest_bundle_is_accepted_at_every_level(level: Level, honest: Bundle) -> None:
    verdict = verify(honest.folder, level, workers=0)
    assert verdict.accepted, verdict.rejected
    assert list(verdict.checked) == list(LEVELS[: LEVELS.index(level) + 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "env", ["schema_relay-v0", "negotiation-v0", "undercover-v0", "liars_dice-v0"]
)
def test_honest_bundles_of_every_mode_are_accepted(env: str, tmp_path: Path) -> None:
    verdict = verify(make_bundle(tmp_path, env).folder, "L3", workers=0)
    assert verdict.accepted, verdict.rejected


def test_a_taken_apart_bundle_put_together_again_is_the_same(
    honest: Bundle, tmp_path: Path
) -> None:
    """The forger's tools change nothing by themselves."""
    forged = Forger.of(honest, tmp_path)
    forged.recompute_ratings()
    folder = forged.rehash()
    assert forged.manifest["claim"] == honest.manifest["claim"]
    assert verify(folder, "L3", workers=0).accepted
