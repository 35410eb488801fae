"""The reference of settings is generated from the source, and describes every setting."""

from pathlib import Path

from srl_agents.cli.settings_page import groups, page

MOST = 450
"""Settings of all classes; shared ones count once."""

SOURCE = '''
from dataclasses import dataclass, field
from typing import ClassVar, Literal


@dataclass(frozen=True)
class PartSettings:
    """A part.

    Not shown.
    """

    kind: str = "part"
    width: int | None = None
    """Of the part,
    in places."""


@dataclass(frozen=True)
class WholeSettings(PartSettings):
    """A whole."""

    count: ClassVar[int] = 3
    part: PartSettings = field(default_factory=PartSettings)
    silent: float


class Undecorated:
    """No settings."""

    width: int = 1
    """Not shown."""
'''


def test_every_setting_has_a_text_and_the_page_has_all() -> None:
    found = groups()
    silent = [f"{g.path}: {g.name}.{s.name}" for g in found for s in g.settings if not s.text]
    assert silent == []
    shown = page(found)
    assert all(f"| `{s.name}` |" in shown for g in found for s in g.settings)
    assert 300 < sum(len(group.settings) for group in found) <= MOST, "derive or share one first"


def test_what_a_class_says_of_its_fields(tmp_path: Path) -> None:
    (tmp_path / "srl_agents").mkdir()
    (tmp_path / "srl_agents/parts.py").write_text(SOURCE)
    part, whole = groups(tmp_path)
    assert (part.name, part.text, part.path) == ("PartSettings", "A part.", "srl_agents/parts.py")
    kind, width = part.settings
    assert (kind.default, kind.text) == ("'part'", "Selects these settings.")
    assert (width.kind, width.default, width.text) == (
        "int | None",
        "None",
        "Of the part, in places.",
    )
    assert whole.bases == ("PartSettings",)
    assert [(one.name, one.default, one.text) for one in whole.settings] == [
        ("part", "field(default_factory=PartSettings)", ""),
        ("silent", "", ""),
    ]
    shown = page([part, whole])
    assert r"| `width` | `int \| None` | `None` | Of the part, in places. |" in shown
    assert "| `part` | [`PartSettings`](#partsettings) | `PartSettings()` |  |" in shown
    assert "| `silent` | `float` | needed |  |" in shown
    assert "Has the settings of [`PartSettings`](#partsettings) too." in shown
