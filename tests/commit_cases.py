"""Cases of a slow test, of which only a few run for every commit."""

from collections.abc import Collection, Iterable

import pytest
from _pytest.mark import ParameterSet


def nightly_but(every_commit: Collection[str], cases: Iterable[str]) -> list[str | ParameterSet]:
    """Cases for `pytest.mark.parametrize`: those not in ``every_commit`` only run in `make nightly`."""
    cases = list(cases)
    unknown = set(every_commit) - set(cases)
    assert not unknown, f"no such cases: {sorted(unknown)}"
    return [
        case if case in every_commit else pytest.param(case, marks=pytest.mark.nightly)
        for case in cases
    ]
