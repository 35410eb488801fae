"""A wait is reported with its name, its beginning and its limit."""

from __future__ import annotations

import asyncio
import re

from srl_agents.engines.waiting import SilenceWatch, Waiting


def test_a_wait_is_reported_with_name_beginning_and_limit() -> None:
    said: list[str] = []

    async def wait() -> None:
        async with Waiting("the server", 600.0, said.append, every_s=0.02).said():
            while len(said) < 2:
                await asyncio.sleep(0.005)

    asyncio.run(wait())
    assert re.fullmatch(r"waiting for the server: 0 s since \d\d:\d\d:\d\d, at most 600 s", said[0])


def test_a_loop_that_ticks_prints_each_line_once() -> None:
    said: list[str] = []
    wait = Waiting("the server", 600.0, said.append, every_s=0.0)
    wait.tick()
    wait._every_s, wait._next_s = 30.0, 30.0
    wait.tick()
    assert len(said) == 1


def test_silence_is_said_while_requests_are_open_and_not_after_a_reply() -> None:
    said: list[str] = []

    async def ask() -> None:
        watch = SilenceWatch("http://h", said.append, every_s=0.05)
        async with watch.request(600.0), watch.request(600.0):
            while not said:
                await asyncio.sleep(0.01)
        quiet = len(said)
        await asyncio.sleep(0.12)
        assert len(said) == quiet
        for _ in range(6):  # each reply comes before its line would
            async with watch.request(600.0):
                await asyncio.sleep(0.02)
        assert len(said) == quiet

    asyncio.run(ask())
    assert said[0].startswith("waiting for http://h: 2 requests, no reply for 0 s (since ")
    assert said[0].endswith("one may take 600 s")
