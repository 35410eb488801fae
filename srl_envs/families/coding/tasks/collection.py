"""Opening a collection of coding tasks: the format's adapter reads it, the sandbox checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from srl_envs.families.coding.judging import Judge
from srl_envs.families.coding.tasks import humaneval, mbpp
from srl_envs.families.coding.tasks.recorded import RecordedRow, reference_fault
from srl_envs.reading.task_rows import (
    Rejected,
    Row,
    TaskReport,
    check_collection,
    fingerprint,
    read_source,
)
from srl_envs.sandbox import CodeExecutor
from srl_envs.sandbox.lending import LIMITS

FORMATS: dict[str, Callable[[Row], RecordedRow | Rejected]] = {
    "humaneval": humaneval.read_row,
    "mbpp": mbpp.read_row,
}
"""Format -> its adapter."""
_PATIENCE_S = 20.0  # of wall time for a row's reference, so that a busy machine rejects none


def check_source(source: str) -> TaskReport[RecordedRow]:
    """The rows of ``humaneval:PATH`` or ``mbpp:PATH``, every reference run in the sandbox.

    Checked once in a process for one content of a file.

    Raises:
        ConfigError: the collection cannot be read, or a row is not of the format.
        SandboxError: the sandbox failed.
    """
    _, path = read_source(source, FORMATS)
    return _checked(source, path, fingerprint(path))


@lru_cache(maxsize=8)
def _checked(source: str, path: str, _content: str) -> TaskReport[RecordedRow]:
    judge = Judge(CodeExecutor(replace(LIMITS, wall_s=_PATIENCE_S)))
    try:
        adapter = FORMATS[read_source(source, FORMATS)[0]]
        return check_collection(source, path, adapter, lambda row: reference_fault(row, judge))
    finally:
        judge.close()
