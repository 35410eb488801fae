import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_envs import registry, retired
from srl_envs.api import making
from srl_envs.errors import (
    ConfigError,
    SRLError,
    TranscriptError,
    UnknownEnvironmentError,
    UnknownPolicyError,
)

GAME = "srl_envs.families.board.connect_four:ConnectFour"

PLUGIN = """
from srl_envs import register
from srl_envs.families.board.connect_four import ConnectFour

class Tiny(ConnectFour):
    def __init__(self, *, rows=4):
        super().__init__(rows=rows, cols=4, k=3)

register(
    id="acme/tiny_four-v2", entry_point="acme_games:Tiny", mode="competitive",
    summary="Four by four.", bots={"random": "srl_envs.families.board.connect_four_bots:random_bot"},
    options={"rows": "height"},
)
"""


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations of a test end with it."""
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Put a distribution with an environments entry point where installed packages are found."""

    def put(code: str) -> None:
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{registry.PLUGIN_GROUP}]\nacme = acme_games\n")
        (tmp_path / "acme_games.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(registry, "_plugins_loaded", False)

    yield put
    sys.modules.pop("acme_games", None)


def test_an_installed_package_adds_its_environments(install: Callable[[str], None]) -> None:
    install(PLUGIN)
    assert "acme/tiny_four-v2" in srl_envs.list_envs()
    env = srl_envs.make("acme/tiny_four-v2", rows=5)
    assert env.render_mode is None
    bots = {seat: srl_envs.make_bot("acme/tiny_four", "random", seed=seat) for seat in (0, 1)}
    assert sum(srl_envs.play(env, bots, seed=0).outcomes) == 0.0


def test_plugins_are_found_without_listing_first(install: Callable[[str], None]) -> None:
    install(PLUGIN)
    assert srl_envs.spec("acme/tiny_four-v2").version == 2


def test_a_broken_package_is_named_and_hides_nothing(install: Callable[[str], None]) -> None:
    install("raise RuntimeError('half installed')")
    with pytest.warns(UserWarning, match="'acme'.*RuntimeError: half installed"):
        listed = srl_envs.list_envs()
    assert "connect_four-v0" in listed
    assert srl_envs.list_envs() == listed


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("conect_four-v0", "connect_four-v0"),
        ("connect_four_v0", "connect_four-v0"),
        ("connect_four-v7", "connect_four-v0"),
        ("math-duel-v0", "math_duel-v0"),
        ("mathduel", "math_duel-v0"),
        ("code_duell", "code_duel-v0"),
        ("srl_envs/nim-v0", "nim-v0"),
    ],
)
def test_an_unknown_id_names_the_nearest(wrong: str, right: str) -> None:
    for call in (srl_envs.spec, srl_envs.make, srl_envs.make_aec, srl_envs.make_single):
        with pytest.raises(UnknownEnvironmentError, match=f"Did you mean '{right}'") as caught:
            call(wrong)
        assert isinstance(caught.value, SRLError | LookupError)
        assert "\n" not in str(caught.value)


def test_an_id_that_is_gone_names_the_next_version_and_what_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "RETIRED", {"connect_four-v0": "a row has five discs"})
    old = registry._SPECS.pop("connect_four-v0")
    registry.register(id="connect_four-v1", entry_point=old.entry_point, mode=old.mode)
    for call in (srl_envs.spec, srl_envs.make, srl_envs.make_aec, srl_envs.make_single):
        with pytest.raises(UnknownEnvironmentError) as caught:
            call("connect_four-v0")
        assert str(caught.value) == (
            "connect_four-v0 is gone: in connect_four-v1 a row has five discs. Use 'connect_four-v1'; "
            "scores of the two cannot be compared."
        )


def test_ids_that_are_gone_have_a_next_version() -> None:
    for env_id in retired.RETIRED:
        assert env_id not in srl_envs.list_envs()
        with pytest.raises(UnknownEnvironmentError, match=f"{env_id} is gone: in .*-v[1-9]"):
            srl_envs.make(env_id)


def test_nothing_near_gives_no_hint() -> None:
    with pytest.raises(UnknownEnvironmentError, match=r"'qqqq'\. `srl envs` lists all \d+\."):
        srl_envs.spec("qqqq")


def test_an_unknown_bot_names_the_nearest() -> None:
    with pytest.raises(UnknownPolicyError, match=r"Did you mean 'middle'\? It has: random, "):
        srl_envs.make_bot("connect_four-v0", "midle")


def test_an_id_without_version_means_the_highest() -> None:
    for version in (9, 10):
        registry.register(id=f"connect_four-v{version}", entry_point=GAME, mode="competitive")
    assert srl_envs.spec("connect_four").version == 10
    assert srl_envs.spec("connect_four-v9").id == "connect_four-v9"
    assert srl_envs.spec("connect_four").name == "connect_four"


@pytest.mark.parametrize(
    "wrong",
    ["connect four-v0", "ConnectFour-v0", "game", "game-v", "game-v1.0", "-v0", "a__b-v0", "a/b/c-v0", ""],
)  # fmt: skip
def test_malformed_ids_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="snake_case"):
        registry.register(id=wrong, entry_point=GAME, mode="mixed")


@pytest.mark.parametrize("target", ["module", "module:", ":Name", "a b:C", "module:Name:x"])
def test_malformed_entry_points_are_refused(target: str) -> None:
    with pytest.raises(ConfigError, match="entry point"):
        registry.register(id="game-v0", entry_point=target, mode="mixed")
    with pytest.raises(ConfigError, match="entry point"):
        registry.register(id="game-v0", entry_point=GAME, mode="mixed", bots={"random": target})


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"mode": "versus"}, "mode='versus'; give one of competitive, cooperative, mixed"),
        ({"seats": 0}, "seats=0; give the number"),
        ({"seats": "2"}, "seats='2'; give the number"),
        ({"numeric": "features"}, "'features' is not of the form 'package.module:Name'"),
    ],
)
def test_impossible_registrations_are_refused(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=f"game-v0: .*{match}"):
        registry.register(**{"id": "game-v0", "entry_point": GAME, "mode": "mixed", **arguments})


def test_the_same_registration_twice_is_one_and_another_is_refused() -> None:
    for _ in range(2):
        registry.register(id="game-v0", entry_point=GAME, mode="competitive")
    with pytest.raises(ConfigError, match="needs a new version"):
        registry.register(id="game-v0", entry_point="elsewhere:Game", mode="competitive")


def test_seats_are_those_of_the_options() -> None:
    assert making.count_seats("liars_dice-v0") == srl_envs.spec("liars_dice-v0").seats == 3
    assert making.count_seats("liars_dice-v0", players=5) == 5
    with pytest.raises(ConfigError, match="players=6"):
        making.count_seats("liars_dice-v0", players=6)


def test_bots_of_one_seed_are_the_same_and_of_two_are_not() -> None:
    seen = srl_envs.make("connect_four-v0").reset(seed=0)[0]["player_0"]["text"]

    def moves(seed: int) -> list[str]:
        bot = srl_envs.make_bot("connect_four-v0", "random", seed=seed)
        return [bot(seen) for _ in range(20)]

    assert moves(1) == moves(1) != moves(2)


# --- games that are not registered --------------------------------------------------------------

OUTSIDE = """
from srl_envs.families.board.connect_four import ConnectFour

class Small(ConnectFour):
    '''Drop pieces on a small board.'''
    mode = "mixed"
    def __init__(self, *, rows=4):
        super().__init__(rows=rows, cols=4, k=3)

SIZE = 4
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module on the path that registers nothing."""
    (tmp_path / "outside_board.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "outside_board"
    sys.modules.pop("outside_board", None)


def test_a_class_is_an_environment_by_its_entry_point(outside: str) -> None:
    env_id = f"{outside}:Small"
    env = srl_envs.make(env_id, rows=5)
    found = srl_envs.spec(env_id)
    assert (found.id, found.name, found.version) == (env_id, env_id, 0)
    assert (found.mode, found.seats, found.bots) == ("mixed", 2, {})
    assert found.summary == "Drop pieces on a small board."
    assert [*found.options] == ["rows"]
    wordless = dict.fromkeys((0, 1), lambda _: "no move")
    assert srl_envs.play(env, wordless, seed=1).env_id == env_id
    with pytest.raises(ConfigError, match="Did you mean 'rows'"):
        srl_envs.make(env_id, row=5)


def test_a_registered_class_keeps_its_bots_and_options_under_its_entry_point() -> None:
    srl_envs.make(GAME, rows=5).close()
    ours, named = srl_envs.spec("connect_four-v0"), srl_envs.spec(GAME)
    assert (named.bots, named.options, named.numeric) == (ours.bots, ours.options, ours.numeric)
    assert srl_envs.make_bot(GAME, "random") is not None


def test_looking_up_an_entry_point_runs_no_code(outside: str) -> None:
    with pytest.raises(UnknownEnvironmentError):
        srl_envs.spec(f"{outside}:Small")
    assert outside not in sys.modules


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("outside_board:Smal", "Did you mean 'Small'"),
        ("outside_bord:Small", "Did you mean 'outside_board'"),
        ("srl_envs.familes.board.nim:Nim", "Did you mean 'families'"),
        ("srl_envs.families.board.nym:Nim", "Did you mean 'nim'"),
        ("srl_envs.families.board.nim.deep:Nim", "no module 'srl_envs.families.board.nim.deep'"),
        ("outside_board:SIZE", "not a subclass of srl_envs.core.Game"),
        ("outside_board:Small.nothing", "has no 'nothing'"),
    ],
)
def test_a_wrong_entry_point_leads_to_the_right_one(outside: str, target: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(target)) as caught:
        srl_envs.make(target)
    assert hint in str(caught.value)


def test_what_a_module_lacks_is_named_as_it_is(outside: str, tmp_path: Path) -> None:
    (tmp_path / "lacking.py").write_text("import a_package_that_is_not_there")
    with pytest.raises(ConfigError, match="No module named 'a_package_that_is_not_there'"):
        srl_envs.make("lacking:Small")


def test_a_record_of_an_entry_point_imports_nothing(outside: str) -> None:
    own = srl_envs.make("connect_four-v0")
    bots = {seat: srl_envs.make_bot("connect_four-v0", "random", seat) for seat in (0, 1)}
    transcript = replace(srl_envs.play(own, bots, seed=1), env_id=f"{outside}:Small")
    with pytest.raises(TranscriptError, match="may name but not run"):
        srl_envs.replay(transcript)
    assert outside not in sys.modules


def test_vectors_with_workers_play_an_entry_point(outside: str) -> None:
    with srl_envs.make_vec(f"{outside}:Small", 2, workers=1) as vec:
        seen = vec.reset(seed=1)
    assert seen is not None
