"""Language models that play, learn and are rated. Importing this package loads none of the heavy libraries.

    run = srl_agents.train("quickstart-tiny", out="runs/q", updates=3)
    agent = srl_agents.load_agent("runs/q", "alice@3")

`srl docs from_python` shows more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from srl_agents.api.opened_run import Run, load_agent
    from srl_agents.api.own_loop import Learner
    from srl_agents.api.text_agent import Agent
    from srl_agents.api.train_run import train
    from srl_agents.credit.crediting import Credited, credit
    from srl_agents.training.callbacks import RunCallback, RunEnd, RunStart, UpdateReport

__all__ = [
    "Agent",
    "Credited",
    "Learner",
    "Run",
    "RunCallback",
    "RunEnd",
    "RunStart",
    "UpdateReport",
    "credit",
    "load_agent",
    "train",
]
_MODULES = {
    "Agent": "srl_agents.api.text_agent",
    "Credited": "srl_agents.credit.crediting",
    "Learner": "srl_agents.api.own_loop",
    "Run": "srl_agents.api.opened_run",
    "RunCallback": "srl_agents.training.callbacks",
    "RunEnd": "srl_agents.training.callbacks",
    "RunStart": "srl_agents.training.callbacks",
    "UpdateReport": "srl_agents.training.callbacks",
    "load_agent": "srl_agents.api.opened_run",
    "train": "srl_agents.api.train_run",
}
"""Public name -> its module, which is imported when the name is first read."""


def __getattr__(name: str) -> Any:
    if name == "credit":  # the package, which can be called
        return import_module("srl_agents.credit")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
