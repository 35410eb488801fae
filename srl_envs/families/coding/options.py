"""Options that the coding games share, checked at once."""

from __future__ import annotations

from collections.abc import Sequence

from srl_envs.errors import ConfigError
from srl_envs.families.coding.generated import GeneratedTasks, checked_families
from srl_envs.families.coding.problems import DIFFICULTIES
from srl_envs.families.coding.task import TaskSource
from srl_envs.families.coding.tasks import RecordedTasks, check_source

DIFFICULTY, HIDDEN_INPUTS = 2, 20
"""Default difficulty and number of hidden inputs of generated tasks."""


def check_whole(game: str, name: str, value: object, low: int, high: int) -> None:
    """Refuse anything but a whole number in the range.

    Raises:
        ConfigError: names the game, the option, its value and the range.
    """
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(f"{game}: {name}={value!r}; give a whole number from {low} to {high}.")


def task_source(
    game: str,
    *,
    tasks: str | None,
    families: Sequence[str] | None,
    difficulty: int,
    hidden_inputs: int,
    each: int = 1,
) -> TaskSource:
    """Generated tasks, or those of a collection.

    Args:
        game: its name, for messages.
        tasks: ``"humaneval:PATH"`` or ``"mbpp:PATH"``; None for generated ones.
        families: of generated tasks; None for all.
        difficulty: of generated tasks, 1 to 5.
        hidden_inputs: tests per generated task, 5 to 60.
        each: tasks that one episode needs.

    Raises:
        ConfigError: an option is impossible, goes with generated tasks only, or a row is broken.
        SandboxError: the references of a collection cannot be run.
    """
    check_whole(game, "difficulty", difficulty, DIFFICULTIES[0], DIFFICULTIES[-1])
    check_whole(game, "hidden_inputs", hidden_inputs, 5, 60)
    chosen = checked_families(game, families)
    if tasks is None:
        return GeneratedTasks(chosen, difficulty, hidden_inputs)
    if (families, difficulty, hidden_inputs) != (None, DIFFICULTY, HIDDEN_INPUTS):
        raise ConfigError(
            f"{game}: difficulty, families and hidden_inputs choose generated tasks; leave them out "
            "with tasks."
        )
    report = check_source(tasks)
    report.require(each, f"{game} with {each} tasks an episode" if each > 1 else game)
    report.warn(stacklevel=3)
    return RecordedTasks(report, each)
