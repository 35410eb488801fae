"""An installed package brings protocols for its own environments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leaderboards.freeze import freeze
from leaderboards.protocol import FOLDER, PROTOCOL_GROUP, load_protocol, protocol_names
from srl_envs import registry
from srl_envs.errors import ConfigError
from tests.leaderboards.command import main

CODE = """
from dataclasses import replace
from srl_envs import registry

registry._SPECS["acme/poker-v3"] = replace(registry.spec("kuhn_poker-v0"), id="acme/poker-v3")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution with an environment and a folder for protocols."""
    info, package = tmp_path / "acme-1.0.dist-info", tmp_path / "acme_games"
    info.mkdir()
    (package / "protocols").mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{registry.PLUGIN_GROUP}]\nacme = acme_games\n"
        f"[{PROTOCOL_GROUP}]\nacme = acme_games.protocols\n"
    )
    (package / "__init__.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    monkeypatch.setattr(registry, "_plugins_loaded", False)
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_games"]:
        del sys.modules[name]


@pytest.fixture
def write(package: Path) -> Callable[..., Path]:
    """Put a protocol into the package."""

    def put(name: str = "poker-v3", **change: Any) -> Path:
        data = json.loads((FOLDER / "kuhn_poker-v0.json").read_text())
        path = package / "protocols" / f"{name}.json"
        path.write_text(json.dumps(data | {"name": name, "env": "acme/poker-v3"} | change))
        return path

    return put


def test_a_protocol_of_a_package_is_frozen_played_bundled_and_verified(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    folder = write().parent
    ours = (FOLDER / "frozen.json").read_bytes()
    assert freeze(folder) == ["poker-v3/1"]
    assert freeze(folder) == []
    assert (FOLDER / "frozen.json").read_bytes() == ours
    assert "poker-v3" in protocol_names()
    assert load_protocol("poker").env == "acme/poker-v3"
    out = tmp_path / "run"
    assert main(["run", "poker-v3", "--seeds", "1", "--out", str(out), "--json"]) == 0
    assert main(["bundle", str(out)]) == 0
    assert main(["verify", str(out / "bundles"), "--level", "L2", "--workers", "0"]) == 0


def test_what_is_not_as_it_was_frozen_is_refused(write: Callable[..., Path]) -> None:
    folder = write().parent
    freeze(folder)
    write(seeds=8)
    with pytest.raises(
        ConfigError, match=r"not as version 1 of it was frozen.*leaderboards\.freeze"
    ):
        load_protocol("poker-v3")
    with pytest.raises(ConfigError, match="Give it version 2"):
        freeze(folder)
    write(seeds=8, version=2)
    assert freeze(folder) == ["poker-v3/2"]
    assert load_protocol("poker-v3").seeds == 8


def test_a_protocol_that_was_never_frozen_is_refused(write: Callable[..., Path]) -> None:
    folder = write().parent
    with pytest.raises(ConfigError, match="cannot be read"):
        load_protocol("poker-v3")
    freeze(folder)
    write("poker-v3.short")
    with pytest.raises(ConfigError, match="not as version 1"):
        load_protocol("poker-v3.short")


def test_no_package_takes_the_name_of_ours(write: Callable[..., Path]) -> None:
    freeze(write("nim-v0").parent)
    with pytest.raises(ConfigError, match="nim-v0 is there twice"):
        load_protocol("nim-v0")


@pytest.mark.parametrize("inside", ["other-v0", "../poker-v3", ""])
def test_a_protocol_is_named_as_its_file(write: Callable[..., Path], inside: str) -> None:
    """Bundles and boards make folders of the name."""
    path = write()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"name": inside}))
    with pytest.raises(ConfigError, match="must name the protocol 'poker-v3'"):
        freeze(path.parent)


def test_a_package_without_its_folder_hides_nothing(package: Path) -> None:
    (package / "protocols").rmdir()
    with pytest.warns(UserWarning, match="protocols of 'acme'.*cannot be found"):
        assert "nim-v0" in protocol_names()


def test_a_folder_without_protocols_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no protocol"):
        freeze(tmp_path)
