"""Metrics of a run: what each name means, and where they go."""

from srl_agents.metrics.console import ConsoleView
from srl_agents.metrics.names import MEANINGS, Record
from srl_agents.metrics.sinks import JSONLines, Sink, TensorBoard

__all__ = ["MEANINGS", "ConsoleView", "JSONLines", "Record", "Sink", "TensorBoard"]
