"""The one form of a golf program: parts that cost nothing are replaced before the program runs.

Layout and comments are dropped, and every name that a program chooses becomes ``v0``, ``v1``, ...
in the order of the syntax tree. Programs that differ only in what is free are one program, so
nothing can be carried there: not by ``__name__``, by line numbers, nor by ways that are not known
yet. What keeps its text is either on the lists of `golf.names` or paid by length (`golf.size`).
"""

from __future__ import annotations

import ast
import builtins
import itertools
import string
from collections.abc import Callable, Iterator
from typing import Literal

from srl_envs.core import require_action
from srl_envs.errors import IllegalMoveError
from srl_envs.families.coding.golf.names import BUILTINS, METHODS, MODULES, NAMES, SPECIAL
from srl_envs.reading.python_text import syntax_tree

Role = Literal["binds", "reads", "sets attribute", "reads attribute", "keyword"]

_ATTRIBUTES = METHODS | SPECIAL
_TEMPLATES = "format"
"""The one listed method that can read an attribute by its text."""
_HIDDEN = frozenset(dir(builtins)) - BUILTINS


def one_form(program: str, given: frozenset[str] = frozenset()) -> str:
    """The program that runs, whose text holds nothing but its priced tree.

    Args:
        program: Python, as `submissions.read_program` returns it.
        given: names of the task (`names_bound`); they stay, and may be read without being bound.

    Raises:
        IllegalMoveError: the program uses a name that is neither its own nor on the lists of
            `golf.names`, imports something else, reads attributes by ``format``, or has no second
            writing.
    """
    tree = syntax_tree(program)
    for node in ast.walk(tree):
        _require_listed_imports(node)
        _require_plain_template(node)
    given = given - _HIDDEN
    uses = [use for node in ast.walk(tree) for use in _uses(node)]
    _require_known(uses, given)
    kept = given | {name for role, name in uses if role == "keyword"}
    _require_no_kept_members(tree, kept - NAMES)
    rename = _renaming(kept)
    for node in ast.walk(tree):
        _change_names(node, rename)
        if isinstance(node, ast.Constant):
            node.kind = None
    return _written(tree)


def names_bound(source: str) -> frozenset[str]:
    """Every name that a source binds, in whatever scope; for the code that a task gives."""
    tree = syntax_tree(source)
    return frozenset(name for n in ast.walk(tree) for role, name in _uses(n) if role == "binds")


def _require_listed_imports(node: ast.AST) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            _require_module(alias.name)
    if isinstance(node, ast.ImportFrom):
        require_action(node.level == 0, "relative imports are not allowed")
        module = node.module or ""
        _require_module(module)
        for alias in node.names:
            require_action(
                alias.name in MODULES[module],
                f"{module}.{alias.name[:40]} may not be used here; of {module} there is "
                f"{', '.join(sorted(MODULES[module])[:12])}",
            )


def _require_module(name: str) -> None:
    require_action(name in MODULES, f"import only from {', '.join(MODULES)}; not {name[:40]}")


def _require_plain_template(node: ast.AST) -> None:
    """``format`` belongs to a text that stands there and names no attribute, as ``"{0.a}"`` does.

    A t-string (Python 3.14) keeps the text of its expressions, so there is none.
    """
    if type(node).__name__ == "TemplateStr":
        raise IllegalMoveError("t-strings may not be used here; f-strings may")
    if isinstance(node, ast.MatchClass):
        require_action(_TEMPLATES not in node.kwd_attrs, "a pattern may not read the method format")
    if isinstance(node, ast.Attribute) and node.attr == _TEMPLATES:
        text = node.value.value if isinstance(node.value, ast.Constant) else None
        require_action(
            isinstance(text, str),
            "format may be used of a text in quotes only, as in '{:03d}'.format(n); "
            "format(n, '03d') and f-strings take any",
        )
        require_action(
            _names_no_attribute(str(text)),
            f"the format {ascii(text)[:40]} reads an attribute, or cannot be read",
        )


def _names_no_attribute(template: str) -> bool:
    """False also for what `str.format` refuses."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError:
        return False
    fields = [(name, spec) for _, name, spec, _ in parts if name is not None]
    return all("." not in name and _names_no_attribute(spec or "") for name, spec in fields)


def _require_known(uses: list[tuple[Role, str]], given: frozenset[str]) -> None:
    own = {name for role, name in uses if role in ("binds", "sets attribute")}
    known: dict[Role, frozenset[str]] = {
        "reads": BUILTINS | given | own,
        "reads attribute": _ATTRIBUTES | own,
    }
    for role, name in uses:
        shown = name[:40]
        require_action(
            not name.startswith("__") or name in SPECIAL, f"the name {shown} may not be used here"
        )
        require_action(
            role != "keyword" or name not in _HIDDEN, f"the keyword {shown} may not be used here"
        )
        require_action(
            role not in known or name in known[role],
            f"the {'attribute' if role == 'reads attribute' else 'name'} {shown} may not be used "
            "here: it is none of Python's that are allowed, and the program does not define it",
        )


def _require_no_kept_members(tree: ast.Module, kept: frozenset[str]) -> None:
    """A kept name inside a class would lose its attribute, which is replaced."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            members = {n for s in node.body for role, n in _top_uses(s) if role == "binds"}
            clash = sorted(members & kept)
            require_action(
                not clash,
                f"the name {''.join(clash[:1])[:40]} is a member of a class and the name of an "
                "argument; use two names",
            )


def _top_uses(statement: ast.stmt) -> Iterator[tuple[Role, str]]:
    """Names that a statement of a class body uses; of a definition only its own name."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield "binds", statement.name
        return
    for node in ast.walk(statement):
        yield from _uses(node)


def _uses(node: ast.AST) -> list[tuple[Role, str]]:
    """The identifiers that a node itself holds."""
    found: list[tuple[Role, str]] = []

    def note(role: Role, name: str) -> str:
        found.append((role, name))
        return name

    _change_names(node, note)
    return found


def _change_names(node: ast.AST, change: Callable[[Role, str], str]) -> None:
    """Replace each identifier that a node itself holds."""
    if isinstance(node, ast.Constant | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.alias):
        bound = change("binds", node.asname or node.name)
        node.asname = None if bound == node.name else bound
        return
    role = _role(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, str):
            setattr(node, field, change(role, value))
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            setattr(node, field, [change(role, item) for item in value])


def _role(node: ast.AST) -> Role:
    """What a node does with its identifiers; what we do not know counts as the program's own."""
    if isinstance(node, ast.Name):
        return "reads" if isinstance(node.ctx, ast.Load) else "binds"
    if isinstance(node, ast.Attribute):
        return "reads attribute" if isinstance(node.ctx, ast.Load) else "sets attribute"
    if isinstance(node, ast.MatchClass):
        return "reads attribute"
    return "keyword" if isinstance(node, ast.keyword) else "binds"


def _renaming(kept: frozenset[str]) -> Callable[[Role, str], str]:
    numbered = (name for k in itertools.count() if (name := f"v{k}") not in kept)
    fresh: dict[str, str] = {}

    def rename(role: Role, name: str) -> str:
        stays = name in _ATTRIBUTES if role.endswith("attribute") else name in kept | NAMES
        if not stays and name not in fresh:
            fresh[name] = next(numbered)
        return name if stays else fresh[name]

    return rename


def _written(tree: ast.Module) -> str:
    """The tree as text, unless the text would say something else."""
    fault = "the program has an f-string or a number that cannot be written anew; simplify it"
    try:
        text = ast.unparse(tree)
        same = ast.dump(syntax_tree(text)) == ast.dump(tree)
    except ValueError:  # a number past Python's digits, a quote inside an f-string
        raise IllegalMoveError(fault) from None
    except RecursionError:  # where the caller's stack is deep
        raise IllegalMoveError("the program is nested too deeply") from None
    require_action(same, fault)
    return text
