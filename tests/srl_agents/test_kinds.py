"""The registry: names, entry points and ``module:Name``, and the error when none of them fits."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest

from srl_agents.kinds import Kinds, Section, function_of, settings_of
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build, dump


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape(ABC):
    shape: str

    @abstractmethod
    def area(self) -> float: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Square(Shape):
    shape: str = "square"
    side: float = 1.0

    def area(self) -> float:
        return self.side**2


@dataclass(frozen=True, kw_only=True, slots=True)
class Circle(Shape):
    shape: str = "circle"
    radius: float = 1.0

    def area(self) -> float:
        return 3 * self.radius**2


@dataclass(frozen=True, kw_only=True, slots=True)
class Shapeless(Shape):
    """Has no area."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Nameless:
    def area(self) -> float:
        return 0.0


class Undecorated(Square): ...


SHAPES: Kinds[type[Shape]] = Kinds(
    what="shape",
    group="tests.shapes",
    built_in={
        "square": f"{__name__}:Square", "circle": f"{__name__}:Circle", "gone": "no.such:Thing"
    },
    fault=settings_of(Shape, "shape"),
)  # fmt: skip
SECTION = Section(kinds=SHAPES, key="shape", default="square")


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    main: Annotated[Shape, SECTION] = field(default_factory=Square)
    other: Annotated[Shape, SECTION] | None = None


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with an installed package that adds shapes."""
    (tmp_path / "shapes_elsewhere.py").write_text(
        f"from {__name__} import Square\nTriangle = Square\n"
    )
    install(tmp_path, "elsewhere", "triangle = shapes_elsewhere:Triangle")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("shapes_elsewhere", None)


def install(folder: Path, name: str, *entries: str) -> None:
    """What an installer leaves behind."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(("[tests.shapes]", *entries, "")))


def test_listing_imports_nothing(outside: Path) -> None:
    assert SHAPES.names() == ["circle", "gone", "square", "triangle"]
    assert "shapes_elsewhere" not in sys.modules


def test_a_kind_is_found_by_name_entry_point_and_place(outside: Path) -> None:
    assert SHAPES.find("circle") is Circle
    assert SHAPES.find("triangle") is Square
    assert SHAPES.find(f"{__name__}:Circle") is Circle


def test_a_built_in_name_stays_what_it_is_whoever_else_claims_it(outside: Path) -> None:
    install(outside, "thief", "square = shapes_elsewhere:Nothing")
    assert SHAPES.find("square") is Square


def test_a_name_that_two_packages_claim_is_refused(outside: Path) -> None:
    install(outside, "rival", "triangle = rival:Triangle")
    with pytest.raises(ConfigError, match=r"rival:Triangle and shapes_elsewhere:Triangle"):
        SHAPES.find("triangle")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("squar", r"no shape 'squar'. Did you mean 'square'\? Use one of circle, gone, square, or"),
        ("gone", r"no.such:Thing cannot be imported, ModuleNotFoundError: no module 'no'"),
        (f"{__name__}:Cube", r"cannot be imported, AttributeError"),
        ("collections:OrderedDict", r"no class that derives from .*:Shape"),
        (f"{__name__}:SECTION", r"is Section, and no class"),
        (f"{__name__}:Shapeless", r"lacks area"),
        (f"{__name__}:Undecorated", r"put @dataclass\(frozen=True"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SHAPES.find(name)


def test_a_kind_needs_a_field_for_its_name() -> None:
    assert "add `shape: str`" in settings_of(Nameless, "shape")(Nameless)


def test_a_function_is_asked_to_be_one() -> None:
    fault = function_of("(view) -> probabilities")
    assert fault(len) == ""
    assert fault(3) == "is int, and no function (view) -> probabilities."


def test_a_section_is_read_as_the_kind_that_it_names() -> None:
    built = build(Drawing, {"main": {"shape": "circle", "radius": 2}, "other": None}, "r.yaml")
    assert built == Drawing(main=Circle(radius=2.0))
    assert build(Drawing, {"main": {"side": 3}}, "r.yaml").main == Square(side=3.0)
    assert build(Drawing, {"main": "circle"}, "r.yaml").main == Circle()


def test_settings_are_read_back_as_they_were_written(outside: Path) -> None:
    for shape in ("circle", "triangle", f"{__name__}:Circle"):
        built = build(Drawing, {"other": {"shape": shape}}, "r.yaml")
        assert build(Drawing, dump(built), "r.yaml") == built
        assert dump(built)["other"]["shape"] == shape


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"shape": "circl"}, r"r.yaml: main: shape: no shape 'circl'. Did you mean 'circle'"),
        ({"shape": "circle", "side": 1}, r"main: shape 'circle' does not read 'side'. It reads: "),
        ({"sid": 1}, r"shape 'square' does not read 'sid'. Did you mean 'side'"),
        ({"side": "wide"}, r"main: side: expected a number, found text"),
        ({"shape": 3}, r"main: shape: expected text, found a whole number"),
        ([1], r"main: expected the name of one, or `key: value` lines, found a list"),
    ],
)
def test_a_mistake_in_a_section_is_named_with_its_place(section: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(Drawing, {"main": section}, "r.yaml")
