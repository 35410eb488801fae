"""The program of a worker process: plays its share of a vector until the other end closes."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import socket
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from srl_envs.api.making import make
from srl_envs.errors import SRLError
from srl_envs.registry import EnvSpec, register
from srl_envs.vector.batch import EnvBatch, Report
from srl_envs.vector.channel import Channel, ChannelClosedError

READY, REPORT, FAILED = "ready", "report", "failed"


def factory(
    env_id: str, options: Mapping[str, Any], wrap: Callable[[Any], Any] | None
) -> Callable[[], Any]:
    """What makes one environment of a vector."""

    def build() -> Any:
        env = make(env_id, **options)
        return wrap(env) if wrap else env

    return build


def register_again(spec: EnvSpec) -> None:
    """Register in this process what another one has under this id, perhaps from a script."""
    register(**asdict(spec))


def serve(channel: Channel) -> None:
    """Answer the messages of the vector, one at a time."""
    spec, options, wrap, indices = pickle.loads(channel.receive())
    register_again(spec)
    batch = EnvBatch(factory(spec.id, options, wrap), indices)
    gc.collect()
    gc.freeze()  # modules and environments stay: no collection needs to walk through them
    try:
        channel.send((READY, None))
        while True:
            name, arguments = channel.receive()
            report: Report = getattr(batch, name)(*arguments)
            channel.send((REPORT, report[:-1]))
            # infos are many small dictionaries: packed while the vector reads the rest already, and
            # unpacked only on access
            channel.send((REPORT, pickle.dumps(report.infos, protocol=pickle.HIGHEST_PROTOCOL)))
    finally:
        batch.close()


def main(descriptor: int) -> int:
    """Exit code: 0 when the vector closed the connection, 1 after an error, which was sent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the vector decides what Ctrl-C means
    if hasattr(os, "SCHED_BATCH"):
        # a worker that wakes must not push the vector aside, which has others to wake yet
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        serve(channel)
    except ChannelClosedError:
        return 0
    except SRLError as error:
        channel.send((FAILED, (error, "")))
    except Exception as error:  # noqa: BLE001 - foreign code; type, message and place are passed on
        channel.send((FAILED, (None, f"{type(error).__name__}: {error}\n{traceback.format_exc()}")))
    return 1
