"""Objects that start threads have none left after `close`."""

from __future__ import annotations

import http.client
import json
import queue
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from srl_agents.agents.players import ModelPolicy
from srl_agents.cli.pages.desk.handler import desk_server
from srl_agents.cli.pages.desk.questions import Desk
from srl_agents.engines.embedded.loop_thread import LoopThread
from srl_agents.engines.endpoint.line import leave_line, take_line
from srl_agents.engines.protocol import GenerationRequest
from srl_agents.engines.scripted import Latency, ScriptedEngine
from srl_agents.engines.vllm.events.prefix_cache import KVEvents
from srl_agents.exports.reply_server import ReplyServer
from srl_agents.interrupts import limit
from srl_agents.metrics.prometheus import metrics_page
from srl_agents.rollouts.steps import _Job, _work
from srl_agents.training.faults.supervised import Supervised
from srl_agents.training.gauges.gpu_load import GPULoad
from srl_agents.transports.answering import Answering


def watchdog(_: Path) -> None:
    with limit("nothing", 60.0, lambda doing: None):
        pass


def loop_thread(_: Path) -> None:
    loop = LoopThread("loop", lambda: None, lambda: False)
    loop.submit(lambda: None).result(60)
    loop.end(60)


def supervised(folder: Path) -> None:
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    child = Supervised("the child", command, folder / "log", patience_s=60, restarts=1)
    child.start()
    child.close()


def answering(_: Path) -> None:
    begun = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    server = Answering(listener, lambda link: begun.set(), 60.0)
    with socket.create_connection(listener.getsockname()):
        begun.wait(60)
        server.close()


def kv_events(folder: Path) -> None:
    KVEvents(folder / "unused").close()


def gpu_load(_: Path) -> None:
    GPULoad(lambda: 1.0, every_s=60.0).close()


def endpoints(_: Path) -> None:
    leave_line(take_line())


def visit(address: str) -> http.client.HTTPConnection:
    """A connection that stays open, with one answer read from it."""
    link = http.client.HTTPConnection(address.removeprefix("http://").partition("/")[0], timeout=60)
    link.request("GET", "/")
    link.getresponse().read()
    return link


def metrics(_: Path) -> None:
    with metrics_page("127.0.0.1", 0, str) as address:
        visitor = visit(address)
    visitor.close()


def desk(_: Path) -> None:
    with desk_server(Desk(), "127.0.0.1", 0) as address:
        visitor = visit(address)
    visitor.close()


def replies(_: Path) -> None:
    """Ended while a client waits for a reply that takes an hour."""
    asked = threading.Event()

    def reply(request: GenerationRequest) -> str:
        asked.set()
        return ""

    slow = ScriptedEngine(reply, latency=Latency(median_s=3600.0))
    with ReplyServer(ModelPolicy(slow)) as server:
        visitor = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=60)
        headers = {"authorization": f"Bearer {server.secret}"}
        visitor.request("POST", "/reply", json.dumps({"text": "a"}), headers)
        while not slow.load.most_in_flight:
            asked.wait(0.01)
    visitor.close()


@pytest.fixture
def nobody_else_runs() -> Iterator[None]:
    """Threads run only where another one waits, so one that is not waited for is still there."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(3600.0)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("nobody_else_runs")
@pytest.mark.parametrize(
    "use",
    [
        watchdog,
        loop_thread,
        supervised,
        answering,
        kv_events,
        gpu_load,
        endpoints,
        metrics,
        desk,
        replies,
    ],
)
def test_no_thread_is_left(use: Callable[[Path], None], tmp_path: Path) -> None:
    before = threading.enumerate()
    use(tmp_path)
    assert [thread for thread in threading.enumerate() if thread not in before] == []


def test_a_loop_thread_that_ends_by_itself_is_waited_for() -> None:
    ending, may_end = threading.Event(), threading.Event()

    class Slow(LoopThread):
        def _wait(self) -> bool:
            more = super()._wait()
            if not more:
                ending.set()
                may_end.wait(60)
            return more

    loop = Slow("slow end", lambda: None, lambda: False)
    loop._idle_s = 0.0
    loop.submit(lambda: None).result(60)
    assert ending.wait(60)
    opens = threading.Timer(0.05, may_end.set)
    opens.start()
    loop.end(60)
    left = [thread.name for thread in threading.enumerate()]
    opens.join()
    assert "slow end" not in left


def test_a_thread_that_steps_matches_keeps_nothing_of_them_while_it_waits() -> None:
    class Match:
        """Stands for what a step refers to and returns."""

    def broken() -> list[Any]:
        raise ZeroDivisionError

    jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
    match: Any = Match()
    gone, job = weakref.ref(match), _Job(partial(list[Any], [match]))
    future = job.future
    thread = threading.Thread(target=_work, args=(jobs,), daemon=True)
    thread.start()
    jobs.put(job)
    assert future.result(60) == [match]
    second = _Job(broken)
    jobs.put(second)
    assert second.future.exception(60)  # the thread is done with the first
    del match, job, future
    assert gone() is None
    jobs.put(None)
    thread.join()
