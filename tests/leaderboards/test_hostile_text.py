"""Text of strangers stays text: in a bundle's fields, on pages, in data files, on a terminal."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboards.boards.publishing import publish
from leaderboards.bundles.submission import Bundle
from leaderboards.bundles.verify import verify
from leaderboards.cli.build import summary
from leaderboards.contents.fields import (
    FORMULA,
    Instant,
    Kind,
    ListOf,
    MapOf,
    Nullable,
    Object,
    Text,
    visible,
)
from leaderboards.contents.schemas import DECLARED, MANIFEST_FILE, PROVENANCE
from leaderboards.pages.build import board_site, write_site
from leaderboards.provenance import provenance
from leaderboards.redteam.forger import Forger
from srl_agents.cli.pages.shared.page_files import embedded_json
from tests.leaderboards.forging import make_bundle

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>", "&lt;b&gt;",
    '=HYPERLINK("https://x","y")', "+1+1", "-2+3", "@SUM(1)", "\t=1", "\x1b[2J", "\x1b]0;t\x07",
    "a\rb", "\u202eevil", "\u2066x", "a\u200bb", "\x00", "2099-01-01T00:00:00+00:00", "${jndi:x}", "`id`",
    "[x](javascript:alert(1))", "\ud800",
)  # fmt: skip
_ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
"""Control and bidirectional characters but the line break."""
hostile = st.one_of(
    st.sampled_from(HOSTILE),
    st.tuples(st.sampled_from(HOSTILE), st.text(max_size=20)).map("".join),
    st.text(max_size=40),
)


def texts(kind: Kind, path: str = "") -> Iterator[tuple[str, Text | Instant]]:
    """Every text that a kind holds, by its place."""
    if isinstance(kind, (Text, Instant)):
        yield path, kind
    elif isinstance(kind, Nullable):
        yield from texts(kind.kind, path)
    elif isinstance(kind, Object):
        for name, inner in kind.fields.items():
            yield from texts(inner, f"{path}.{name}")
    elif isinstance(kind, (ListOf, MapOf)):
        yield from texts(kind.kind if isinstance(kind, ListOf) else kind.value, f"{path}[]")


@given(hostile)
def test_what_people_declare_and_machines_note_is_refused_where_it_would_act(text: str) -> None:
    for place, kind in [*texts(DECLARED), *texts(PROVENANCE)]:
        if not kind.fits(text):
            continue
        assert not _ACTS.search(text), place
        assert not text.startswith(FORMULA), place
        if place not in (".training_data", ".submitter"):
            assert not re.search("[<>]", text), place


def test_every_free_text_of_a_manifest_is_a_prompt() -> None:
    """Only what a model reads or writes may hold any character; a new free field needs an outlet's care."""
    free = {place for place, kind in texts(MANIFEST_FILE) if isinstance(kind, Text) and kind.free}
    assert all(".shown." in place for place in free)


@given(hostile)
def test_what_a_terminal_shows_moves_and_hides_nothing(text: str) -> None:
    assert not _ACTS.search(visible(text))
    row = {"agent": text, "best_rank": 1, "worst_rank": 1, "provisional": [], "value": 0.5}
    board = {
        "env_id": "nim-v0", "options": text, "agents": [{**row, "half_width": None}], "matches": 1,
        "clusters": 1, "metric": {"digits": 1, "signed": True},
    }  # fmt: skip
    assert not _ACTS.search(summary({"boards": [board]}))


@pytest.mark.slow
@given(hostile)
def test_a_note_of_this_machine_always_fits_a_bundle(text: str) -> None:
    """Whatever a user's command or a package's version holds, the bundle that it makes can be read."""
    if "\ud800" in text:
        return
    quoted = "'" + text.replace("'", "") + "'"
    made = provenance(
        "nim-v0", f"srl leaderboard run nim --submitter {quoted}", "2026-11-23T00:00:00+00:00"
    )
    PROVENANCE.check(made)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(tmp_path_factory.mktemp("honest"), "kuhn_poker-v0")


@pytest.fixture(scope="module")
def site(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    board = tmp_path_factory.mktemp("board")
    assert publish(bundle, verify(bundle.folder, "L1"), board)
    data, _ = board_site(board, per_board=0)
    return data


def replaced(value: Any, text: str) -> Any:
    """The data with this text in the place of every text outside the site's own structure."""
    if isinstance(value, dict):
        own = ("mode", "env_id", "slug", "when", "level")
        return {k: v if k in own else replaced(v, text) for k, v in value.items()}
    if isinstance(value, list):
        return [replaced(item, text) for item in value]
    return text if isinstance(value, str) else value


@settings(max_examples=25, deadline=None)
@given(text=hostile)
def test_no_text_of_a_site_is_markup_in_any_of_its_files(
    text: str, site: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("site")
    write_site(replaced(copy.deepcopy(site), text), out)
    data = (out / "data.json").read_text(encoding="ascii")
    assert not _ACTS.search(data)
    assert text in json.loads(data)["fingerprint"]
    written = [path.read_text(encoding="utf-8") for path in out.glob("boards/*.js")]
    page = (out / "index.html").read_text(encoding="utf-8")
    begin = '<script id="overview" type="application/json">'
    overview = page.partition(begin)[2].partition("</script>")[0]
    for data_text in (overview, *written):
        assert not re.search("[<>&]", data_text)
        assert data_text.isascii()
        assert not _ACTS.search(data_text)
    assert embedded_json(text) in overview


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("command", "<img src=x onerror=alert(1)>", "provenance.command"),
        ("command", '=HYPERLINK("https://x")', "provenance.command"),
        ("command", "srl run <b>", "provenance.command"),
        ("platform", "=1+1", "provenance.platform"),
        ("python", "3<b>", "provenance.python"),
        ("started", "1970-01-01T00:00:00+00:00", "provenance.started"),
        ("started", "2026-02-30T00:00:00+00:00", "provenance.started"),
        ("started", "2099-01-01T00:00:00+00:00", "ended before"),
        ("ended", "2099-01-01T00:00:00+00:00", "in the future"),
    ],
)
def test_a_bundle_with_a_hostile_note_is_rejected_at_l0(
    place: str, value: str, words: str, bundle: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(bundle, tmp_path)
    forged.manifest["provenance"][place] = value
    verdict = verify(forged.rehash(), "L0")
    assert verdict.reached is None
    assert words in verdict.rejected


@pytest.mark.parametrize(
    "text", ["OpenAI", "\u041eрen\u0410I", '=HYPERLINK("x")', "@x", "\u202eAnn"]
)
def test_a_submitter_who_poses_as_a_maker_or_a_formula_is_rejected_at_l0(
    text: str, bundle: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(bundle, tmp_path)
    forged.manifest["claim"]["declared"]["submitter"] = text
    assert "claim.declared.submitter" in verify(forged.rehash(), "L0").rejected
