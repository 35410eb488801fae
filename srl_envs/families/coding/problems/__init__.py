"""The problem families of the coding environments, by name."""

from srl_envs.families.coding.problems import (
    base_conversion,
    bigram_counts,
    bracket_repair,
    calendar_arithmetic,
    expression,
    grid_paths,
    increasing_run,
    interval_merge,
    knapsack,
    matrix_spiral,
    run_length,
    topological_order,
)
from srl_envs.families.coding.problems.family import (
    DIFFICULTIES,
    Bug,
    Parameters,
    ProblemFamily,
    Size,
)

FAMILIES: dict[str, ProblemFamily] = {
    module.FAMILY.name: module.FAMILY
    for module in (
        interval_merge,
        run_length,
        base_conversion,
        bracket_repair,
        grid_paths,
        topological_order,
        knapsack,
        increasing_run,
        expression,
        calendar_arithmetic,
        bigram_counts,
        matrix_spiral,
    )
}

__all__ = ["DIFFICULTIES", "FAMILIES", "Bug", "Parameters", "ProblemFamily", "Size"]
