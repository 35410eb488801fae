"""Coding tasks from collections of rows; one adapter module per format."""

from srl_envs.families.coding.tasks.collection import FORMATS, check_source
from srl_envs.families.coding.tasks.recorded import RecordedRow, RecordedTask, RecordedTasks

__all__ = ["FORMATS", "RecordedRow", "RecordedTask", "RecordedTasks", "check_source"]
