"""Rewards to advantages, and advantages to training batches. Numpy only.

The package can be called, too: ``srl_agents.credit(episodes, estimator="group")`` is `crediting.credit`. A
function of that name in `srl_agents` would be replaced by this package as soon as a module of it is imported.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from srl_agents.credit.crediting import Credited


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Credited:
        """See `srl_agents.credit.crediting.credit`."""
        from srl_agents.credit.crediting import credit  # noqa: PLC0415 - imports this package

        return credit(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
