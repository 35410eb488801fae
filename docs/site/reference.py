"""`python -m docs.site.reference`: pages of reference that are written from the code.

Public names, commands, recipes, metrics and errors; settings, faults and games have programs of their own,
and `make docs` runs them all. The pages are built and not committed.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from srl_agents.cli.documentation.topics import MODULES
from srl_agents.cli.main import COMMAND_GROUP
from srl_agents.cli.main import main as srl
from srl_agents.metrics.names import MEANINGS
from srl_agents.recipes.loading import SHIPPED

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/reference"
WRITTEN = "Written by `python -m docs.site.reference`; do not edit."
HELP_COLUMNS = "88"
PACKAGES = ("srl_envs", "srl_agents", "leaderboards")


def public_names(module: ModuleType) -> list[str]:
    """``__all__``, or what a module without it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return sorted(own)


def api_page(name: str, purpose: str) -> str:
    """One public module, as directives that Sphinx fills from docstrings."""
    module = importlib.import_module(name)
    lines = [f"# {name}", "", f"{purpose[:1].upper()}{purpose[1:]}. {WRITTEN}", ""]
    for public in public_names(module):
        lines += [f"## {public}", "", "```{eval-rst}", *_directive(name, module, public), "```", ""]
    return "\n".join(lines)


def _directive(name: str, module: ModuleType, public: str) -> list[str]:
    value: Any = getattr(module, public)
    if inspect.ismodule(value):  # srl_agents.credit, a package that can be called
        return [f".. autofunction:: {value.__name__}.crediting.{public}"]
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, Exception) else "class"
        return [f".. auto{kind}:: {value.__module__}.{public}"]
    if inspect.isfunction(value):
        return [f".. autofunction:: {value.__module__}.{public}"]
    return [f".. autodata:: {_home(name, public)}.{public}", "   :no-value:"]


def _home(package: str, constant: str) -> str:
    """The module below a package that defines a constant and has a text under it."""
    for name, module in sys.modules.items():
        if f"{name}.".startswith(f"{package}.") and constant in vars(module):
            text = inspect.getsource(module)
            if re.search(rf"^{constant}\b.*=", text, flags=re.MULTILINE):
                return name
    raise LookupError(f"{package}.{constant}: found nowhere")


def api_index() -> str:
    """The list of public modules."""
    rows = [f"| [`{name}`]({name}.md) | {purpose} |" for name, purpose in MODULES.items()]
    names = "\n".join(MODULES)
    return (
        f"# Python\n\nThe public names by module, with their source. {WRITTEN}\n\n"
        "| module | for |\n|---|---|\n" + "\n".join(rows) + "\n\n"
        f"```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )


def command_lines() -> Iterator[list[str]]:
    """Words of every command, groups before their parts."""
    for entry in sorted(metadata.entry_points(group=COMMAND_GROUP), key=lambda one: one.name):
        yield [entry.name]
        home = sys.modules[entry.load().__module__]
        for part in getattr(home, "SUBCOMMANDS", ()):
            yield [entry.name, part]


def help_of(words: list[str]) -> str:
    """What ``srl WORDS --help`` prints."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = HELP_COLUMNS
    written = io.StringIO()
    try:
        with contextlib.redirect_stdout(written):
            code = srl([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    if code:
        raise RuntimeError(f"srl {' '.join(words)} --help ended with {code}")
    return "\n".join(line.rstrip() for line in written.getvalue().strip().splitlines())


def commands_page() -> str:
    """Every command's help."""
    lines = ["# Commands", "", f"What `--help` prints. {WRITTEN}", ""]
    lines += ["```text", help_of([]), "```", ""]
    for words in command_lines():
        mark = "##" if len(words) == 1 else "###"
        lines += [f"{mark} srl {' '.join(words)}", "", "```text", help_of(words), "```", ""]
    return "\n".join(lines)


def recipes_page() -> str:
    """Every shipped recipe: its comment, then the file."""
    lines = [
        "# Recipes",
        "",
        "Shipped by name: `srl train NAME`, `srl plan NAME`. Their keys are explained in "
        f"[settings](settings.md). {WRITTEN}",
        "",
    ]
    for path in sorted(SHIPPED.glob("*.yaml")):
        comment, body = split_comment(path.read_text(encoding="utf-8"))
        lines += [f"## {path.stem}", "", comment, "", "```yaml", body, "```", ""]
    return "\n".join(lines)


def split_comment(text: str) -> tuple[str, str]:
    """The comment at a recipe's head as a paragraph, and what follows."""
    lines = text.strip().splitlines()
    head = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    comment = " ".join(line.removeprefix("#").strip() for line in lines[:head])
    return comment.replace("<", "\\<").replace("*", "\\*"), "\n".join(lines[head:])


def table(heads: tuple[str, ...], rows: Mapping[str, tuple[str, ...]]) -> list[str]:
    """A Markdown table; the first cell of a row is code."""
    cells = (
        f"| `{name}` | {' | '.join(cell.replace('|', chr(92) + '|') for cell in rest)} |"
        for name, rest in rows.items()
    )
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *cells]


def metrics_page() -> str:
    """Every metric with its unit."""
    return "\n".join(
        [
            "# Metrics",
            "",
            "A run writes them to `metrics.jsonl` and to every sink. `NAME`, `N` and `METRIC` stand for what "
            f"the run has. {WRITTEN}",
            "",
            *table(("metric", "what"), {name: (text,) for name, text in MEANINGS.items()}),
            "",
        ]
    )


@dataclass(frozen=True)
class ErrorClass:
    """An exception as its source has it."""

    module: str
    bases: tuple[str, ...]
    text: str
    """First paragraph of its docstring."""


def errors(root: Path = ROOT) -> dict[str, ErrorClass]:
    """Name -> every public exception that derives from `SRLError`; read from the source, not imported."""
    classes: dict[str, ErrorClass] = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    text = (ast.get_docstring(node) or "").partition("\n\n")[0]
                    bases = tuple(map(ast.unparse, node.bases))
                    classes[node.name] = ErrorClass(module, bases, " ".join(text.split()))
    found: dict[str, ErrorClass] = {}
    names = {"SRLError"}
    while names:
        found |= {name: classes[name] for name in names if not name.startswith("_")}
        names = {name for name, one in classes.items() if names & {*one.bases}} - {*found}
    return found


def errors_page() -> str:
    """Every error that SRL raises on purpose."""
    order = sorted(errors().items(), key=lambda one: (one[1].module != "srl_envs.errors", one))
    rows = {
        f"{one.module}.{name}": (", ".join(f"`{base}`" for base in one.bases), one.text)
        for name, one in order
    }
    return "\n".join(
        [
            "# Errors",
            "",
            "What SRL raises on purpose. Each text names what was given and what to do; a command prints it "
            f"on one line and ends with 2. Faults of training have [their own table](faults.md). {WRITTEN}",
            "",
            *table(("error", "is also", "when"), rows),
            "",
        ]
    )


def pages() -> dict[str, str]:
    """Path below ``docs/reference`` -> text."""
    return {
        "commands.md": commands_page(),
        "recipes.md": recipes_page(),
        "metrics.md": metrics_page(),
        "errors.md": errors_page(),
        "api/index.md": api_index(),
        **{f"api/{name}.md": api_page(name, purpose) for name, purpose in MODULES.items()},
    }


def main() -> int:
    """Write them all."""
    for name, text in pages().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
