"""`python -m srl_agents.cli.settings_page`: the reference of all settings, written from the source.

A setting is a field of a frozen dataclass with a text under it. The page is made by parsing source files:
nothing is imported, so packages above this one are in it too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/settings.md"
COMMAND = "python -m srl_agents.cli.settings_page"
_PACKAGES = ("srl_agents", "srl_envs", "leaderboards")
_ENDINGS = ("Settings", "Options", "Recipe")
_BESIDE = {
    "leaderboards/protocol.py": ("Protocol", "Limits", "Penalties", "Decoding", "RatingRules"),
    "srl_envs/sandbox/limits.py": ("Limits",),
}
"""Settings that are not called so."""
_OWN = ("srl_agents/minimal.py", "srl_agents/cli/scaffold/examples/")
"""Files, and beginnings of their paths, whose settings no recipe and no command reads."""
_CHAPTERS = (
    ("Recipes", ("srl_agents/recipes", "srl_agents/agents")),
    ("Trainers", ("srl_agents/trainers", "srl_agents/training")),
    ("Credit and rewards", ("srl_agents/credit", "srl_agents/rewards", "srl_envs/rewards")),
    (
        "League and coordination",
        ("srl_agents/league", "srl_agents/coordination", "srl_agents/sharing"),
    ),
    ("Engines and transports", ("srl_agents/engines", "srl_agents/transports")),
    ("Sandbox", ("srl_envs/sandbox",)),
    ("Commands", ("srl_agents/cli", "leaderboards/cli")),
    ("Protocols of leaderboards", ("leaderboards",)),
)
_REST = "Others"
_TAGS = ("kind", "algorithm")
"""Names of the key that gives a section's class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting: a field of a settings class."""

    name: str
    kind: str
    """Its type, as the source has it, without annotations for the command line."""
    default: str
    """Default value as the source has it; empty where there is none."""
    text: str
    """The text under the field, on one line; empty without a text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The settings of one class."""

    name: str
    path: str
    """Path of its file, from the root of the repository."""
    line: int
    text: str
    """The first paragraph of its docstring."""
    bases: tuple[str, ...]
    settings: tuple[Setting, ...]
    """Fields that the class declares; inherited ones stand with the class that declares them."""
    chosen_by: str = ""
    """Line of a recipe that selects the class among others of its base; empty for other classes."""


def groups(root: Path = ROOT) -> list[Group]:
    """All classes of settings, by file and place in it."""
    found = []
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            short = path.relative_to(root).as_posix()
            if short.startswith(_OWN):
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and _is_settings(node, short):
                    found.append(_group(node, short))
    return [group for group in found if group.settings or group.bases]


def _is_settings(node: ast.ClassDef, path: str) -> bool:
    made = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    named = node.name.endswith(_ENDINGS) or node.name in _BESIDE.get(path, ())
    return made and named and not node.name.startswith("_")


def _group(node: ast.ClassDef, path: str) -> Group:
    bases = tuple(text for base in node.bases if (text := ast.unparse(base)).endswith(_ENDINGS))
    own = tuple(_settings(node))
    tags = [one for one in own if bases and one.name in _TAGS and one.default]
    return Group(
        name=node.name,
        path=path,
        line=node.lineno,
        text=_one_line((ast.get_docstring(node) or "").partition("\n\n")[0]),
        bases=bases,
        settings=tuple(one for one in own if one not in tags),
        chosen_by="".join(f"{one.name}: {ast.literal_eval(one.default)}" for one in tags),
    )


def _settings(node: ast.ClassDef) -> Iterator[Setting]:
    for number, part in enumerate(node.body):
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
            continue
        kind = ast.unparse(_plain(part.annotation))
        if part.target.id.startswith("_") or kind.startswith("ClassVar"):
            continue
        yield Setting(
            name=part.target.id,
            kind=kind,
            default="" if part.value is None else ast.unparse(part.value),
            text=_under(node.body, number) or _tag(part),
        )


def _plain(annotation: ast.expr) -> ast.expr:
    """A type without ``Annotated[..., tyro...]`` and ``tyro.conf.Positional[...]`` around it."""
    if not isinstance(annotation, ast.Subscript):
        return annotation
    around = ast.unparse(annotation.value)
    inside = annotation.slice
    if around == "tyro.conf.Positional":
        return _plain(inside)
    if around == "Annotated" and isinstance(inside, ast.Tuple):
        first, *others = inside.elts
        if all(ast.unparse(other).startswith("tyro.") for other in others):
            return _plain(first)
    return annotation


def _under(body: Sequence[ast.stmt], number: int) -> str:
    """The text below a field."""
    below = body[number + 1] if number + 1 < len(body) else None
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
        return _one_line(str(below.value.value))
    return ""


def _tag(field: ast.AnnAssign) -> str:
    """Text for a field that selects a section's class; empty for other fields."""
    constant = isinstance(field.value, ast.Constant) and isinstance(field.value.value, str)
    return "Selects these settings." if constant and ast.unparse(field.target) in _TAGS else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def page(found: Sequence[Group]) -> str:
    """The page in Markdown."""
    fields = sum(len(group.settings) for group in found)
    lines = [
        "# Settings",
        "",
        f"All {fields} settings of {len(found)} classes. Written by `{COMMAND}` from the",
        "texts in the source; do not edit. A recipe has the keys of `LeagueRecipe` or `PopulationRecipe`;",
        "a type that is a link is a section with keys of its own. Options are spelled `--like-this`.",
        "The twenty that matter most come first: [guide](../guides/settings.md).",
    ]
    known = {group.name for group in found}
    for title, some in _chapters(found):
        lines += ["", f"## {title}"]
        for group in some:
            lines += ["", *_section(group, known)]
    return "\n".join(lines) + "\n"


def _chapters(found: Sequence[Group]) -> Iterator[tuple[str, list[Group]]]:
    left = list(found)
    for title, folders in _CHAPTERS:
        some = [group for group in left if group.path.startswith(tuple(f"{f}/" for f in folders))]
        left = [group for group in left if group not in some]
        if some:
            yield title, some
    if left:
        yield _REST, left


def _section(group: Group, known: set[str]) -> list[str]:
    lines = [f"### {group.name}", "", group.text, "", f"Source: `{group.path}`."]
    if group.bases:
        also = ", ".join(_linked(base, known) for base in group.bases)
        lines[-1] += f" Has the settings of {also} too."
    if group.chosen_by:
        lines[-1] += f" Chosen by `{group.chosen_by}`."
    if group.settings:
        lines += ["", "| setting | type | default | what |", "|---|---|---|---|"]
        lines += [
            f"| `{one.name}` | {_linked(one.kind, known)} | {_default(one.default)} | {_cell(one.text)} |"
            for one in group.settings
        ]
    return lines


def _linked(kind: str, known: set[str]) -> str:
    """A type, with a link where it names a section of the page."""
    names = [name for name in known if name in kind.replace("|", " ").replace("[", " ").split()]
    code = f"`{_cell(kind)}`"
    return f"[{code}](#{names[0].lower()})" if len(names) == 1 else code


def _default(value: str) -> str:
    if not value:
        return "needed"
    factory = "field(default_factory="
    made = (
        f"{value.removeprefix(factory).removesuffix(')')}()" if value.startswith(factory) else value
    )
    return f"`{_cell({'dict()': '{}', 'tuple()': '()'}.get(made, made))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`")


def main() -> int:
    """Write the page; exit code 1 where a setting has no text, 2 outside a checkout."""
    if not PAGE.parents[1].is_dir():
        print(f"{PAGE.parents[1]}: folder not found. Run this in a checkout.", file=sys.stderr)
        return 2
    found = groups()
    silent = [f"{g.path}: {g.name}.{s.name}" for g in found for s in g.settings if not s.text]
    for name in silent:
        print(f"{name} has no text under it.", file=sys.stderr)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(found), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
