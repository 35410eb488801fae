"""Make many environments in step by name; apart from `making`, which their workers use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from srl_envs.vector import VectorEnv


def make_vec(
    env_id: str,
    n: int,
    *,
    workers: int = 0,
    pin_workers: bool = False,
    wrap: Callable[[Any], Any] | None = None,
    **options: Any,
) -> VectorEnv:
    """``n`` environments in step: one list of texts out, one list of replies in.

    Args:
        env_id: a registered id.
        n: how many environments.
        workers: processes that play them, each a contiguous share; 0: this process does. What is
            played does not depend on it.
        pin_workers: keep each worker on a processor of its own. Faster where nothing else runs;
            slower where others want the same processors, as the kernel cannot move a worker away.
        wrap: put around every environment (`srl_envs.wrappers`); with workers it must be importable.
        **options: as in `make`.

    Raises:
        UnknownEnvironmentError: no such id.
        ConfigError: an argument or option is unknown or impossible.
        VectorError: a worker does not start.
    """
    from srl_envs.vector import VectorEnv  # noqa: PLC0415 - keeps `import srl_envs` light

    return VectorEnv(
        env_id, n, workers=workers, pin_workers=pin_workers, wrap=wrap, options=options
    )
