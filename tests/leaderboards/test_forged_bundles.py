"""Bundles forged from the schema: none is accepted, and each refusal names the fault."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboards.boards.publishing import publish
from leaderboards.bundles.submission import Bundle, find_bundles, open_bundle
from leaderboards.bundles.verify import LEVELS, verify
from leaderboards.contents.intake import BundleError
from leaderboards.pages.build import board_site
from leaderboards.redteam.field_forgeries import Forgery, field_forgeries
from leaderboards.redteam.file_forgeries import file_forgeries
from leaderboards.redteam.forger import Forger, Stage
from srl_envs.errors import ConfigError
from tests.leaderboards.forging import make_bundle

MOST_PEAK_BYTES = 160 << 20
"""A line may hold 4 MiB, which are up to 24 times as much as Python's lists."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("honest"), "kuhn_poker-v0")


@pytest.fixture(scope="module")
def cooperative(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("cooperative"), "schema_relay-v0")


def judged(forged: Path, board: Path) -> str:
    """Why a forged bundle is refused, by everything that reads bundles; empty if anything accepts it."""
    verdict = verify(forged, "L0")
    if verdict.reached is not None:
        return ""
    with pytest.raises((ConfigError, BundleError)):
        publish(open_bundle(forged), verdict, board)
    assert not board.exists()
    return verdict.rejected


def resident(name: str) -> int:
    """Bytes of this process in memory: ``VmRSS`` now, ``VmHWM`` at most."""
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name)]
    return int(line.split()[1]) << 10


def forget_peak() -> int:
    """Begin a new ``VmHWM``; bytes in memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def every(bundle: Bundle, kind: str, folder: Path) -> Iterator[Forgery]:
    sample = Forger.of(bundle, folder / "sample")
    yield from field_forgeries(sample) if kind == "fields" else file_forgeries(sample)


@pytest.fixture(
    scope="module",
    params=[
        ("fields", 41),
        ("files", 10),
        pytest.param(("fields", 7), marks=pytest.mark.slow),
        pytest.param(("files", 3), marks=pytest.mark.slow),
        pytest.param(("fields", 1), marks=pytest.mark.nightly),
        pytest.param(("files", 1), marks=pytest.mark.nightly),
    ],
    ids=lambda param: f"{param[0]}, every {param[1]}",
)
def reasons(
    request: pytest.FixtureRequest, honest: Bundle, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Name of each forgery -> why it is refused; the quick tests take a few of each kind."""
    kind, step = request.param
    folder = tmp_path_factory.mktemp("forged")
    found = {}
    for number, forgery in enumerate(list(every(honest, kind, folder))[::step]):
        forged = forgery.make(Forger.of(honest, folder / str(number)))
        before = forget_peak()
        found[forgery.name] = judged(forged, folder / "board")
        assert resident("VmHWM") - before < MOST_PEAK_BYTES, forgery.name
        shutil.rmtree(folder / str(number))
    return found


def test_no_forged_bundle_is_accepted(reasons: dict[str, str]) -> None:
    assert [name for name, reason in reasons.items() if not reason] == []
    assert len(reasons) >= 12


def test_there_are_hundreds_of_forgeries(honest: Bundle, tmp_path: Path) -> None:
    assert len(list(every(honest, "fields", tmp_path / "fields"))) > 500
    assert len(list(every(honest, "files", tmp_path / "files"))) > 60


def test_every_reason_is_one_line_that_names_the_place(reasons: dict[str, str]) -> None:
    for name, reason in reasons.items():
        assert len(reason) < 600, name
        assert reason.isascii(), name
        assert reason.isprintable(), (name, reason)
    unnamed = [(name, reason) for name, reason in reasons.items() if place(name) not in reason]
    assert unnamed == []


def place(name: str) -> str:
    """What the reason must say: the file, or the last key on the way to the field."""
    where, _, label = name.rpartition(": ")
    if where == "the folder":
        return ""
    if where.startswith(("manifest.json", "ratings.json")) or (
        where.count(".") == 2 and where.endswith(".xz")
    ):
        return where
    document, *keys = re.sub(r"\.[0-9]+(?=\.|$)", "", where).split(".")
    files = {"match": "matches", "transcript": "transcripts"}
    unreadable = ("twice", "NaN", "infinity", "too large for a float", "5000 digits")
    if not keys or any(word in label for word in unreadable) or "files" in keys:
        return files.get(document, document)
    return keys[-1]


@pytest.mark.nightly
def test_no_forged_bundle_of_another_mode_is_accepted(cooperative: Bundle, tmp_path: Path) -> None:
    for number, forgery in enumerate(list(every(cooperative, "fields", tmp_path))[::3]):
        forged = forgery.make(Forger.of(cooperative, tmp_path / str(number)))
        assert judged(forged, tmp_path / "board"), forgery.name
        shutil.rmtree(tmp_path / str(number))


# --- whatever a manifest holds ---------------------------------------------------------------

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place below a value."""
    if isinstance(value, (dict, list)):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, step)
            yield from paths_of(item, (*path, step))


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_manifest_of_anything_is_read_or_refused_and_changes_no_agent(
    data: st.DataObject, honest: Bundle, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It may tell another story of where it was made, and declare other things: nothing else."""
    forger = Forger.of(honest, tmp_path_factory.mktemp("fuzz"))
    kept = {key: forger.manifest[key] for key in ("schema", "claim", "provenance")}
    *parents, last = data.draw(st.sampled_from(list(paths_of(kept))))
    value = data.draw(VALUES)

    def change(forged: Forger) -> None:
        holder: Any = forged.manifest
        for step in parents:
            holder = holder[step]
        holder[last] = value

    whole = not parents or (parents == ["claim"] and last in ("records", "ratings_sha256"))
    derived = whole or parents[:2] == ["claim", "records"]
    try:
        folder = forger.forge(change, Stage.FILES if derived else Stage.CONTENT)
    except UnicodeEncodeError:
        return
    verdict = verify(folder, "L1")
    if verdict.accepted:
        read = open_bundle(folder)
        assert read.agents == honest.agents
        for key in ("protocol", "seeds", "agents", "ticket", "ratings_sha256"):
            assert read.claim[key] == honest.claim[key]
    else:
        assert verdict.rejected.isprintable()


# --- what no field is wrong in, and is not true ----------------------------------------------


def other_seat(step: dict[str, Any]) -> None:
    step["replies"] = {"63": "<action>bet</action>"}


def no_seat(step: dict[str, Any]) -> None:
    step["replies"] = {}


def both(step: dict[str, Any]) -> None:
    step["replies"] = {"0": "<action>bet</action>", "1": "<action>bet</action>"}


def shorter(step: dict[str, Any]) -> None:
    step["rewards"] = step["rewards"][:1]


def longer(step: dict[str, Any]) -> None:
    step["invalid"] = [*step["invalid"], None]


@pytest.mark.parametrize("change", [other_seat, no_seat, both, shorter, longer])
def test_steps_that_no_game_has_reach_no_site(
    change: Callable[[dict[str, Any]], None], honest: Bundle, tmp_path: Path
) -> None:
    """A board may take bundles at L1: then the site plays these steps again."""
    forger = Forger.of(honest, tmp_path)
    change(forger.transcripts[3]["steps"][0])
    folder = forger.rehash()
    verdict = verify(folder, "L1")
    if verdict.accepted:
        publish(open_bundle(folder), verdict, tmp_path / "board")
        _, episodes = board_site(tmp_path / "board")
        assert any(episode["differs"] for episode in episodes)
    else:
        assert "record 3 " in verdict.rejected


def test_an_honest_bundle_is_accepted(honest: Bundle) -> None:
    for level in LEVELS:
        assert verify(honest.folder, level, workers=0).accepted


def test_a_search_for_bundles_follows_no_link(honest: Bundle, tmp_path: Path) -> None:
    (tmp_path / "inside").symlink_to(honest.folder.parent)
    with pytest.raises(ConfigError, match="holds no bundle"):
        find_bundles(tmp_path)
