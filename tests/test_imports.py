"""No module imports itself through others, at its top or inside a function; file names differ."""

from collections import defaultdict
from pathlib import Path

import grimp
import pytest

PACKAGES = ("srl_envs", "srl_agents", "leaderboards", "benchmarks")
ROOT = Path(__file__).parents[1]
ONE_PER_FOLDER = {"__init__.py", "engine.py", "protocol.py", "settings.py"}
"""Names that say what a file is to its folder."""


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that all reach each other, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        path.append(module)
        for other in sorted(imports[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in path:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            group = path[path.index(module) :]
            del path[path.index(module) :]
            if len(group) > 1 or module in imports[module]:
                found.append(sorted(group))

    for module in sorted(imports):
        if module not in number:
            visit(module)
    return found


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "c"}}, [["b", "c"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"a", "d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_circles_are_found(imports: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(imports) == expected


def imported(*, types: bool) -> dict[str, set[str]]:
    """Module -> modules that it imports, in functions, too; ``types``: also only for type checkers."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=not types, cache_dir=None)
    found = {
        module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules
    }
    assert len(found) > 300
    return found


def test_there_is_no_import_circle() -> None:
    assert circles(imported(types=False)) == []


def test_types_alone_make_few_circles() -> None:
    """Settings that make their learner, and checks of a recipe that makes itself: no others."""
    trainers = "srl_agents.trainers"
    learners = [
        [f"{trainers}.{kind}", f"{trainers}.{kind}_settings"] for kind in ("dpo", "grpo", "ppo")
    ]
    (checks,) = [group for group in circles(imported(types=True)) if group not in learners]
    assert {name.rpartition(".")[0] for name in checks} == {
        "srl_agents.recipes", "srl_agents.recipes.checks",
    }  # fmt: skip


def test_a_file_name_is_used_once_in_the_agents() -> None:
    places = defaultdict(list)
    for path in (ROOT / "srl_agents").rglob("*.py"):
        if "cli" not in path.parts:  # a command's file is called as the command
            places[path.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 200
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in ONE_PER_FOLDER} == {}
    assert twice.keys() == ONE_PER_FOLDER, "allow only what is used"
