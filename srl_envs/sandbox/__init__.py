"""Runs untrusted code under time, memory and file limits, and judges it from outside."""

from srl_envs.sandbox.compare import same_items, same_text, same_value
from srl_envs.sandbox.executor import CodeExecutor
from srl_envs.sandbox.jobs import Budget
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.outcome import Outcome
from srl_envs.sandbox.separation import PROPERTIES

__all__ = [
    "PROPERTIES",
    "Budget",
    "CodeExecutor",
    "Limits",
    "Outcome",
    "same_items",
    "same_text",
    "same_value",
]
