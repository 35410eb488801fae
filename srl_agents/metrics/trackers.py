"""External dashboards as sinks of metrics: Trackio and Weights & Biases."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from srl_agents.metrics.names import Record
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError

TrackerName = Literal["trackio", "wandb"]


def require_trackers(names: Iterable[str]) -> None:
    """Raise `ConfigError` for the first tracker that is not installed, before anything slow."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(
                f"report_to: {name} is not installed: {install_command(name)}, or leave it out."
            )


class Tracker:
    """One run of one tracker; both have the same three calls.

    After a crash the updates since the last checkpoint are sent again; Weights & Biases keeps the
    first values of an update, Trackio both.

    Args:
        name: which.
        project: groups runs.
        run: the run's name; Trackio continues the run that has it.
        run_id: Weights & Biases continues the run that has it.
        config: the recipe, as plain values.

    Raises:
        ConfigError: the tracker does not begin, for example because no user is logged in.
    """

    def __init__(
        self,
        name: TrackerName,
        *,
        project: str,
        run: str,
        run_id: str,
        config: Mapping[str, Any],
    ) -> None:
        module: Any = importlib.import_module(name)
        # Trackio takes no ids, and would open a notebook's cell
        own = {"id": run_id} if name == "wandb" else {"embed": False}
        try:
            self._run: Any = module.init(
                project=project, name=run, config=dict(config), resume="allow", **own
            )
        except Exception as error:  # foreign code with errors of its own
            raise ConfigError(
                f"report_to: {name} does not begin: {type(error).__name__}: {error} "
                "Mend that, or leave it out."
            ) from error

    def write(self, record: Record) -> None:
        """Send the record under the grouped names."""
        self._run.log(record.flat(), step=record.update)

    def close(self) -> None:
        """Send what is still held and end the run."""
        self._run.finish()
