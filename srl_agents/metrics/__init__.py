"""Metrics of a run: meanings of their names, and the sinks that they are written to."""

from srl_agents.metrics.console import ConsoleView
from srl_agents.metrics.full_view import FullView
from srl_agents.metrics.names import MEANINGS, Record
from srl_agents.metrics.sinks import JSONLines, Sink, TensorBoard

__all__ = ["MEANINGS", "ConsoleView", "FullView", "JSONLines", "Record", "Sink", "TensorBoard"]
